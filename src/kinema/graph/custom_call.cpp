#include "kinema/graph/custom_call.h"

#include <fmt/ranges.h>

#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"

namespace kinema {
namespace {

std::string layouts_text(const std::vector<std::vector<int64_t>>& given,
                         const std::vector<Shape>& shapes) {
  std::string text;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const int64_t rank = shapes[i].rank();
    std::vector<int64_t> minor_to_major = given.empty() ? std::vector<int64_t>() : given[i];
    for (int64_t axis = rank - 1; given.empty() && axis >= 0; --axis) {
      minor_to_major.push_back(axis);
    }
    text += fmt::format("{}dense<[{}]> : tensor<{}xindex>", text.empty() ? "" : ", ",
                        fmt::join(minor_to_major, ", "), rank);
  }
  return text;
}

void emit_custom_call(const Node& node, Emitter& out) {
  const auto& attrs = node.get<CustomCallAttrs>();
  std::vector<Shape> operands;
  for (const Tensor x : node.inputs) {
    operands.push_back(x.shape());
  }
  out.generic(node, "stablehlo.custom_call",
              fmt::format("call_target_name = {}, api_version = {} : i32, backend_config = {}{}{}, "
                          "operand_layouts = [{}], result_layouts = [{}]",
                          mlir_quoted(attrs.target), attrs.api_version, attrs.config,
                          attrs.more.empty() ? "" : ", ", attrs.more,
                          layouts_text(attrs.operand_layouts, operands),
                          layouts_text(attrs.result_layouts, node.results)));
}

}  // namespace

constinit const Op kCustomCall{
    .name = "custom_call",
    .infer = nullptr,
    .gradient = [](Node& node, std::span<const Tensor>, const std::vector<bool>&) -> Cotangents {
      fail("[custom_call] `{}` has no gradient", node.get<CustomCallAttrs>().target);
    },
    .emit = emit_custom_call};

std::vector<Tensor> custom_call(std::vector<Tensor> operands, std::vector<Shape> results,
                                CustomCallAttrs attrs) {
  check(!operands.empty() && !results.empty(),
        "[custom_call] `{}` has {} operands and {} results; each is at least one", attrs.target,
        operands.size(), results.size());
  Graph& graph = innermost(operands);
  Node& node =
      graph.add_multi(kCustomCall, std::move(operands), std::move(attrs), std::move(results));
  std::vector<Tensor> out;
  for (size_t i = 0; i < node.results.size(); ++i) {
    out.push_back(node.result(static_cast<int64_t>(i)));
  }
  return out;
}

std::string mlir_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\') {
      out += fmt::format("\\{:02X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace kinema
