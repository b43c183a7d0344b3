#include "kinema/kernels/cpu/custom_call.h"

#include <fmt/ranges.h>

#include <utility>

#include "kinema/core/trace.h"

namespace kinema::kernels {
namespace {

std::string layout(const Shape& shape) {
  std::vector<int64_t> minor_to_major;
  for (int64_t i = shape.rank() - 1; i >= 0; --i) {
    minor_to_major.push_back(i);
  }
  return fmt::format("dense<[{}]> : tensor<{}xindex>", fmt::join(minor_to_major, ", "),
                     shape.rank());
}

std::string in_place(const Results& results) {
  std::vector<std::string> aliases;
  for (size_t i = 0; i < results.in_place; ++i) {
    aliases.push_back(fmt::format(
        "#stablehlo.output_operand_alias<output_tuple_indices = [{}], operand_index = {}, "
        "operand_tuple_indices = []>",
        results.count == 1 ? "" : std::to_string(i), i));
  }
  return aliases.empty() ? ""
                         : fmt::format(", output_operand_aliases = [{}]", fmt::join(aliases, ", "));
}

}  // namespace

void Operands::add(std::string name, const Shape& shape) {
  names.push_back(std::move(name));
  types.push_back(mlir_type(shape));
  layouts.push_back(layout(shape));
}

Operands operands_of(std::span<const Tensor> inputs, const Emitter& out) {
  Operands operands;
  for (const Tensor input : inputs) {
    operands.add(out.name(input), input.shape());
  }
  return operands;
}

Operands operands_of(const Node& node, const Emitter& out) { return operands_of(node.inputs, out); }

void write_call(const Node& written, const char* target, const std::string& config,
                const Operands& in, Emitter& out, const std::string& location,
                const Results& results) {
  const size_t count = results.count;
  std::vector<std::string> types, layouts;
  for (const Shape& result : std::span(written.results).first(count)) {
    types.push_back(mlir_type(result));
    layouts.push_back(layout(result));
  }
  const std::string name = out.fresh();
  out.line(
      "{}{} = \"stablehlo.custom_call\"({}) {{call_target_name = \"{}\", api_version = 4 : i32, "
      "backend_config = {{{}}}, operand_layouts = [{}], result_layouts = [{}]{}}} : ({}) -> ({}){}",
      name, count > 1 ? fmt::format(":{}", count) : "", fmt::join(in.names, ", "), target, config,
      fmt::join(in.layouts, ", "), fmt::join(layouts, ", "), in_place(results),
      fmt::join(in.types, ", "), fmt::join(types, ", "), location);
  for (size_t i = 0; i < count; ++i) {
    out.bind(const_cast<Node&>(written).result(static_cast<int64_t>(i)),
             count > 1 ? fmt::format("{}#{}", name, i) : name);
  }
}

std::string traced_label(const Node& node) {
  const std::string name = node.scope->empty() ? std::string(node.op->name) : *node.scope;
  return fmt::format(", scope = {} : i64", trace::label(name).number);
}

}  // namespace kinema::kernels
