#include "kinema/pjrt/hlo_program.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/pjrt/device_groups.h"
#include "kinema/pjrt/hlo_schedule.h"

namespace kinema::pjrt {
namespace {

struct ElementType {
  std::string_view name;
  int64_t bits;
};

// xla.PrimitiveType by number.
constexpr std::array<ElementType, 35> kTypes{{
    {"invalid", 0},    {"pred", 8},  {"s8", 8},       {"s16", 16},          {"s32", 32},
    {"s64", 64},       {"u8", 8},    {"u16", 16},     {"u32", 32},          {"u64", 64},
    {"f16", 16},       {"f32", 32},  {"f64", 64},     {"tuple", 0},         {"opaque", 0},
    {"c64", 64},       {"bf16", 16}, {"token", 0},    {"c128", 128},        {"f8e5m2", 8},
    {"f8e4m3fn", 8},   {"s4", 4},    {"u4", 4},       {"f8e4m3b11fnuz", 8}, {"f8e5m2fnuz", 8},
    {"f8e4m3fnuz", 8}, {"s2", 2},    {"u2", 2},       {"f8e4m3", 8},        {"f8e3m4", 8},
    {"s1", 1},         {"u1", 1},    {"f4e2m1fn", 4}, {"f8e8m0fnu", 8},     {"unknown", 0},
}};

int64_t bits_of(std::string_view type) {
  const auto* const found = std::ranges::find(kTypes, type, &ElementType::name);
  return found == kTypes.end() ? 0 : found->bits;
}

HloShape read_shape(const wire::HloShape& shape) {
  HloShape out;
  const auto type = static_cast<size_t>(std::max(0, shape.element_type()));
  out.type = kTypes[std::min(type, kTypes.size() - 1)].name;
  out.dims.assign(shape.dimensions().begin(), shape.dimensions().end());
  out.memory_space = shape.layout().memory_space();
  for (const auto& part : shape.tuple_shapes()) {
    out.parts.push_back(read_shape(part));
  }
  return out;
}

std::optional<int64_t> read_value(const wire::HloInstruction& in) {
  const wire::HloLiteral& literal = in.literal();
  if (literal.s32_size() + literal.s64_size() + literal.u32_size() + literal.u64_size() != 1) {
    return std::nullopt;
  }
  if (literal.s32_size() == 1) {
    return literal.s32(0);
  }
  if (literal.s64_size() == 1) {
    return literal.s64(0);
  }
  return literal.u32_size() == 1 ? static_cast<int64_t>(literal.u32(0))
                                 : static_cast<int64_t>(literal.u64(0));
}

/// The first group of a collective, or the two ends of one hop.
std::vector<int64_t> read_members(const wire::HloInstruction& in) {
  for (const auto& pair : in.source_target_pairs()) {
    if (pair.source() != pair.target()) {
      return {pair.source(), pair.target()};
    }
  }
  const std::vector<std::vector<int64_t>> groups = device_groups(in);
  return groups.empty() ? std::vector<int64_t>() : groups.front();
}

HloInstruction read_instruction(const wire::HloInstruction& in) {
  HloInstruction out;
  out.name = in.name();
  out.opcode = in.opcode();
  out.target = in.custom_call_target();
  out.origin = in.metadata().op_name();
  out.backend_config = in.backend_config();
  out.direction = in.comparison_direction();
  out.shape = read_shape(in.shape());
  out.number = in.opcode() == "parameter" ? in.parameter_number() : in.tuple_index();
  out.members = read_members(in);
  out.group = in.source_target_pairs().empty() ? std::ssize(out.members) : 0;
  const auto& contracted = in.dot_dimension_numbers().lhs_contracting_dimensions();
  out.contracted = {contracted.begin(), contracted.end()};
  if (in.opcode() == "constant") {
    out.value = read_value(in);
  }
  return out;
}

HloModule read_module(const wire::HloModule& in) {
  HloModule out;
  out.name = in.name();
  std::map<int64_t, size_t> computations;
  for (const auto& computation : in.computations()) {
    computations.emplace(computation.id(), computations.size());
  }
  const auto place = [](const std::map<int64_t, size_t>& all, int64_t id, const char* what) {
    const auto found = all.find(id);
    check(found != all.end(), "[pjrt] the optimized program refers to {} {}, which it lacks", what,
          id);
    return found->second;
  };
  for (const auto& computation : in.computations()) {
    HloComputation& made = out.computations.emplace_back();
    made.name = computation.name();
    std::map<int64_t, size_t> places;
    for (const wire::HloInstruction* instruction : instructions_in_order(in, computation)) {
      HloInstruction& one = made.instructions.emplace_back(read_instruction(*instruction));
      for (const int64_t id : instruction->operand_ids()) {
        one.operands.push_back(place(places, id, "instruction"));
      }
      for (const int64_t id : instruction->called_computation_ids()) {
        one.calls.push_back(place(computations, id, "computation"));
      }
      places.emplace(instruction->id(), places.size());
    }
    made.root = place(places, computation.root_id(), "root");
  }
  out.entry = place(computations, in.entry_computation_id(), "entry");
  return out;
}

}  // namespace

int64_t HloShape::elements() const {
  int64_t count = 1;
  for (const int64_t d : dims) {
    count *= d;
  }
  return count;
}

int64_t HloShape::bytes() const {
  int64_t sum = (elements() * bits_of(type) + 7) / 8;
  for (const HloShape& part : parts) {
    sum += part.bytes();
  }
  return sum;
}

int64_t HloShape::device_bytes() const {
  int64_t sum = memory_space == 0 ? (elements() * bits_of(type) + 7) / 8 : 0;
  for (const HloShape& part : parts) {
    sum += part.device_bytes();
  }
  return sum;
}

HloModule read_hlo(const OptimizedProgram& program) {
  if (program.format == "hlo_with_config") {
    wire::HloModuleWithConfig with_config;
    check(with_config.ParseFromString(program.bytes),
          "[pjrt] the optimized program ({} bytes) is not an HLO module", program.bytes.size());
    return read_module(with_config.hlo_module());
  }
  check(program.format == "hlo", "[pjrt] the optimized program has format `{}`, expected HLO",
        program.format);
  wire::HloModule module;
  check(module.ParseFromString(program.bytes),
        "[pjrt] the optimized program ({} bytes) is not an HLO module", program.bytes.size());
  return read_module(module);
}

}  // namespace kinema::pjrt
