#include "kinema/pjrt/compiled_hlo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <iterator>
#include <map>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/pjrt/hlo_schedule.h"

namespace kinema::pjrt {
namespace {

// PrimitiveType of xla_data.proto, by number.
constexpr std::array<std::string_view, 21> kElementTypes = {
    "invalid", "pred", "s8",   "s16",   "s32",  "s64",    "u8",
    "u16",     "u32",  "u64",  "f16",   "f32",  "f64",    "tuple",
    "opaque",  "c64",  "bf16", "token", "c128", "f8e5m2", "f8e4m3fn"};

std::string shape_text(const wire::HloShape& shape) {
  if (shape.tuple_shapes_size() > 0) {
    std::vector<std::string> parts;
    for (const auto& part : shape.tuple_shapes()) parts.push_back(shape_text(part));
    return fmt::format("({})", fmt::join(parts, ", "));
  }
  const auto type = static_cast<size_t>(shape.element_type());
  std::string text = type < kElementTypes.size() ? std::string(kElementTypes[type])
                                                 : fmt::format("type{}", shape.element_type());
  fmt::format_to(std::back_inserter(text), "[{}]", fmt::join(shape.dimensions(), ","));
  if (shape.layout().minor_to_major_size() > 0) {
    const int64_t space = shape.layout().memory_space();
    fmt::format_to(std::back_inserter(text), "{{{}{}}}",
                   fmt::join(shape.layout().minor_to_major(), ","),
                   space == 0 ? "" : fmt::format(":S({})", space));
  }
  return text;
}

void write_instruction(const wire::HloInstruction& instruction, bool is_root,
                       const std::map<int64_t, std::string>& names,
                       const std::map<int64_t, std::string>& computations, std::string& out) {
  const auto name_of = [](const std::map<int64_t, std::string>& all, int64_t id) {
    const auto found = all.find(id);
    return found == all.end() ? fmt::format("%{}", id) : "%" + found->second;
  };
  std::vector<std::string> operands;
  for (const int64_t id : instruction.operand_ids()) operands.push_back(name_of(names, id));
  if (instruction.opcode() == "parameter") {
    operands.push_back(std::to_string(instruction.parameter_number()));
  }
  const auto end = std::back_inserter(out);
  fmt::format_to(end, "  {}%{} = {} {}({})", is_root ? "ROOT " : "", instruction.name(),
                 shape_text(instruction.shape()), instruction.opcode(), fmt::join(operands, ", "));
  if (instruction.opcode() == "get-tuple-element") {
    fmt::format_to(end, ", index={}", instruction.tuple_index());
  }
  if (!instruction.custom_call_target().empty()) {
    fmt::format_to(end, ", target={}", instruction.custom_call_target());
  }
  for (const int64_t id : instruction.called_computation_ids()) {
    fmt::format_to(end, ", calls={}", name_of(computations, id));
  }
  if (!instruction.metadata().op_name().empty()) {
    fmt::format_to(end, "  // {}", instruction.metadata().op_name());
  }
  out += '\n';
}

}  // namespace

std::string hlo_text(const OptimizedProgram& program) {
  wire::HloModule module;
  if (program.format == "hlo_with_config") {
    wire::HloModuleWithConfig with_config;
    check(with_config.ParseFromString(program.bytes),
          "[pjrt] the optimized program ({} bytes) is not an HLO module", program.bytes.size());
    module = std::move(*with_config.mutable_hlo_module());
  } else if (program.format == "hlo") {
    check(module.ParseFromString(program.bytes),
          "[pjrt] the optimized program ({} bytes) is not an HLO module", program.bytes.size());
  } else {
    return program.bytes;
  }

  std::map<int64_t, std::string> computations;
  for (const auto& computation : module.computations()) {
    computations[computation.id()] = computation.name();
  }
  std::string out = fmt::format("HloModule {}\n", module.name());
  for (const auto& computation : module.computations()) {
    std::map<int64_t, std::string> names;
    for (const auto& instruction : computation.instructions()) {
      names[instruction.id()] = instruction.name();
    }
    const bool entry = computation.id() == module.entry_computation_id();
    fmt::format_to(std::back_inserter(out), "\n{}%{} {{\n", entry ? "ENTRY " : "",
                   computation.name());
    for (const wire::HloInstruction* instruction : instructions_in_order(module, computation)) {
      write_instruction(*instruction, instruction->id() == computation.root_id(), names,
                        computations, out);
    }
    out += "}\n";
  }
  return out;
}

}  // namespace kinema::pjrt
