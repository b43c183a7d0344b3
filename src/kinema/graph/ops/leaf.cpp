#include <fmt/format.h>

#include <cstring>

#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

struct SplatAttrs {
  Shape shape;
  double value;
};

struct ConstantAttrs {
  Shape shape;
  std::vector<std::byte> bytes;
};

struct IotaAttrs {
  Shape shape;
  int64_t axis;
};

// MLIR packs the bits of raw pred constants, so these are written value by value.
std::string nested_list(const ConstantAttrs& attrs, size_t axis, size_t& position) {
  if (axis == attrs.shape.dims.size()) {
    return attrs.bytes[position++] != std::byte{0} ? "true" : "false";
  }
  std::string out = "[";
  for (int64_t i = 0; i < attrs.shape.dims[axis]; ++i) {
    out += i == 0 ? "" : ", ";
    out += nested_list(attrs, axis + 1, position);
  }
  return out + "]";
}

std::string dense_text(const ConstantAttrs& attrs) {
  if (attrs.bytes.empty()) {
    return "";
  }
  if (attrs.shape.dtype == DType::PRED) {
    size_t position = 0;
    return nested_list(attrs, 0, position);
  }
  std::string out = "\"0x";
  out.reserve(2 * attrs.bytes.size() + 4);
  for (const std::byte b : attrs.bytes) {
    fmt::format_to(std::back_inserter(out), "{:02X}", static_cast<unsigned>(b));
  }
  return out + "\"";
}

// y[...] = value
constexpr Op kSplat{
    .name = "splat",
    .infer = [](const Node& node) -> Shape { return node.get<SplatAttrs>().shape; },
    .gradient = Gradient::none(),
    .mlir = "stablehlo.constant",
    .attributes = [](const Node& node) -> std::string {
      const auto& attrs = node.get<SplatAttrs>();
      return fmt::format("value = dense<{}> : {}", mlir_literal(attrs.value, attrs.shape.dtype),
                         mlir_type(attrs.shape));
    },
    .free_to_recompute = true,
};

// y = the given elements
constexpr Op kConstant{
    .name = "constant",
    .infer = [](const Node& node) -> Shape { return node.get<ConstantAttrs>().shape; },
    .gradient = Gradient::none(),
    .mlir = "stablehlo.constant",
    .attributes = [](const Node& node) -> std::string {
      const auto& attrs = node.get<ConstantAttrs>();
      return fmt::format("value = dense<{}> : {}", dense_text(attrs), mlir_type(attrs.shape));
    },
    .free_to_recompute = true,
};

// y[i, j, ...] = the index along one axis
constexpr Op kIota{
    .name = "iota",
    .infer = [](const Node& node) -> Shape { return node.get<IotaAttrs>().shape; },
    .gradient = Gradient::none(),
    .mlir = "stablehlo.iota",
    .attributes = [](const Node& node) -> std::string {
      return fmt::format("iota_dimension = {} : i64", node.get<IotaAttrs>().axis);
    },
    .free_to_recompute = true,
};

constexpr const Op* kOps[] = {&kSplat, &kConstant, &kIota};

}  // namespace

std::span<const Op* const> leaf_ops() { return kOps; }

Tensor constant(Graph& graph, double value, Shape shape) {
  checked_elements(shape.dims);
  mlir_literal(value, shape.dtype);  // throws here for 0.5 as an integer, not during emission
  return graph.add(kSplat, {}, SplatAttrs{std::move(shape), value});
}

Tensor constant(Graph& graph, Shape shape, std::span<const std::byte> bytes) {
  checked_elements(shape.dims);
  check(static_cast<int64_t>(bytes.size()) == shape.bytes(), "[constant] {} bytes given, {} has {}",
        bytes.size(), to_string(shape), shape.bytes());
  return graph.add(kConstant, {}, ConstantAttrs{std::move(shape), {bytes.begin(), bytes.end()}});
}

Tensor constant_f32(Graph& graph, Dims dims, std::span<const float> values) {
  return constant(graph, Shape{DType::F32, std::move(dims)}, std::as_bytes(values));
}

Tensor iota(Graph& graph, Shape shape, Axis axis) {
  checked_elements(shape.dims);
  check(shape.dtype != DType::PRED, "[iota] {} has no order", to_string(shape));
  const int64_t at = resolve_axis(axis, shape, "iota");
  return graph.add(kIota, {}, IotaAttrs{std::move(shape), at});
}

Tensor zeros_like(Tensor x) { return full_like(x, 0.0); }

Tensor ones_like(Tensor x) { return full_like(x, 1.0); }

}  // namespace kinema
