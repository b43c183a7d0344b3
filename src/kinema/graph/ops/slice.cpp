#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

struct PadAttrs {
  int64_t axis, low, high, interior;
};

struct AxisAttrs {
  int64_t axis;
};

struct DynamicAttrs {
  int64_t axis, size;
};

size_t at(int64_t axis) { return static_cast<size_t>(axis); }

// `value` on one axis, `other` on the rest.
std::vector<int64_t> on_axis(int64_t rank, int64_t axis, int64_t value, int64_t other) {
  std::vector<int64_t> out(at(rank), other);
  out[at(axis)] = value;
  return out;
}

}  // namespace

// y[i] = x[start + i stride],  dx = dy with zeros before, between and after
const Op kSlice{
    .name = "slice",
    .infer = [](const Node& node) -> Shape {
      const auto& attrs = node.get<SliceAttrs>();
      const Shape& x = node.shape(0);
      check(attrs.start >= 0 && attrs.size >= 0 && attrs.stride >= 1 &&
                attrs.limit() <= x.dims[at(attrs.axis)],
            "[slice] {} elements from {} with stride {} do not fit on axis {} of {}", attrs.size,
            attrs.start, attrs.stride, attrs.axis, to_string(x));
      Shape out = x;
      out.dims[at(attrs.axis)] = attrs.size;
      return out;
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const auto& attrs = y.node().get<SliceAttrs>();
      const int64_t after = y.node().shape(0).dims[at(attrs.axis)] - attrs.limit();
      return {pad(dy, Axis(attrs.axis), attrs.start, after, 0.0, attrs.stride - 1)};
    },
    .mlir = "stablehlo.slice",
    .attributes = [](const Node& node) -> std::string {
      const auto& [axis, start, size, stride] = node.get<SliceAttrs>();
      const Shape& x = node.shape(0);
      std::vector<int64_t> limits = x.dims;
      limits[at(axis)] = node.get<SliceAttrs>().limit();
      return fmt::format("start_indices = {}, limit_indices = {}, strides = {}",
                         i64_array(on_axis(x.rank(), axis, start, 0)), i64_array(limits),
                         i64_array(on_axis(x.rank(), axis, stride, 1)));
    },
    .free_to_recompute = true,
};

namespace {

// y = x with `value` (the second input) around and between elements,  dx = the part of dy at x's
// elements; `value` is a constant without a gradient
constexpr Op kPad{
    .name = "pad",
    .infer = [](const Node& node) -> Shape {
      const auto& [axis, low, high, interior] = node.get<PadAttrs>();
      check(low >= 0 && high >= 0 && interior >= 0,
            "[pad] {} by {} before, {} after and {} between: sizes to add cannot be negative",
            to_string(node.shape(0)), low, high, interior);
      Shape out = node.shape(0);
      int64_t& size = out.dims[at(axis)];
      size += low + high + (size > 0 ? (size - 1) * interior : 0);
      return out;
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const auto& [axis, low, high, interior] = y.node().get<PadAttrs>();
      const int64_t size = y.node().shape(0).dims[at(axis)];
      return {slice(dy, Axis(axis), low, size, interior + 1), Tensor()};
    },
    .mlir = "stablehlo.pad",
    .attributes = [](const Node& node) -> std::string {
      const auto& [axis, low, high, interior] = node.get<PadAttrs>();
      const int64_t rank = node.shape(0).rank();
      return fmt::format("edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
                         i64_array(on_axis(rank, axis, low, 0)),
                         i64_array(on_axis(rank, axis, high, 0)),
                         i64_array(on_axis(rank, axis, interior, 0)));
    },
    .free_to_recompute = true,
};

}  // namespace

// y[i] = x[n - 1 - i],  dx = dy reversed
constinit const Op kReverse{
    .name = "reverse",
    .infer = same_as_first,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      return {reverse(dy, Axis(y.node().get<ReverseAttrs>().axis))};
    },
    .mlir = "stablehlo.reverse",
    .attributes = [](const Node& node) -> std::string {
      return "dimensions = " + i64_array({node.get<ReverseAttrs>().axis});
    },
    .free_to_recompute = true,
};

namespace {

void check_start(const Node& node, const Shape& start) {
  check(is_integer(start.dtype) && start.rank() == 0,
        "[{}] the position is {}, an integer scalar is needed", node.op->name, to_string(start));
}

// The operands after the tensors: `start` on one axis, a zero of the same dtype on the others.
std::string starts(const Node& node, Emitter& out, Tensor start, int64_t axis, std::string& types) {
  const std::string type = mlir_type(start.shape());
  const int64_t rank = node.shape(0).rank();
  const std::string zero = rank > 1 ? emit_splat(out, node, "0", start.shape()) : "";
  std::string names;
  for (int64_t i = 0; i < rank; ++i) {
    names += ", " + (i == axis ? out.name(start) : zero);
    types += ", " + type;
  }
  return names;
}

// y = x[start : start + size],  dx = dy written there into zeros
constexpr Op kDynamicSlice{
    .name = "dynamic_slice",
    .infer = [](const Node& node) -> Shape {
      const auto& [axis, size] = node.get<DynamicAttrs>();
      check_start(node, node.shape(1));
      check(size >= 0 && size <= node.shape(0).dims[at(axis)],
            "[dynamic_slice] {} elements do not fit on axis {} of {}", size, axis,
            to_string(node.shape(0)));
      Shape out = node.shape(0);
      out.dims[at(axis)] = size;
      return out;
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Node& node = y.node();
      const Tensor zeros = constant(dy.graph(), 0.0, node.shape(0));
      const Axis axis(node.get<DynamicAttrs>().axis);
      return {dynamic_update_slice(zeros, axis, node.input(1), dy), Tensor()};
    },
    .emit =
        [](const Node& node, Emitter& out) {
          std::string types = mlir_type(node.shape(0));
          const std::string at_start =
              starts(node, out, node.input(1), node.get<DynamicAttrs>().axis, types);
          const std::string result = out.fresh();
          out.line("{} = \"stablehlo.dynamic_slice\"({}{}) {{slice_sizes = {}}} : ({}) -> {}{}",
                   result, out.name(node.input(0)), at_start, i64_array(node.results[0].dims),
                   types, mlir_type(node.results[0]), out.location(node));
          out.bind(result_of(node), result);
        },
};

// y = x with u written at start,  dx = dy with zeros there,  du = dy[start : start + size]
constexpr Op kDynamicUpdateSlice{
    .name = "dynamic_update_slice",
    .infer = [](const Node& node) -> Shape {
      const int64_t axis = node.get<AxisAttrs>().axis;
      const Shape& x = node.shape(0);
      Shape update = node.shape(1);
      check_start(node, node.shape(2));
      const bool fits = update.rank() == x.rank() && update.dims[at(axis)] <= x.dims[at(axis)];
      if (fits) {
        update.dims[at(axis)] = x.dims[at(axis)];
      }
      check(fits && update == x, "[dynamic_update_slice] {} cannot be written into {} on axis {}",
            to_string(node.shape(1)), to_string(x), axis);
      return x;
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Node& node = y.node();
      const Axis axis(node.get<AxisAttrs>().axis);
      const Tensor start = node.input(2);
      const Tensor zeros = constant(dy.graph(), 0.0, node.shape(1));
      return {dynamic_update_slice(dy, axis, start, zeros),
              dynamic_slice(dy, axis, start, node.shape(1).dims[at(axis.index)]), Tensor()};
    },
    .emit =
        [](const Node& node, Emitter& out) {
          std::string types = mlir_type(node.shape(0)) + ", " + mlir_type(node.shape(1));
          const std::string at_start =
              starts(node, out, node.input(2), node.get<AxisAttrs>().axis, types);
          const std::string result = out.fresh();
          out.line("{} = \"stablehlo.dynamic_update_slice\"({}, {}{}) : ({}) -> {}{}", result,
                   out.name(node.input(0)), out.name(node.input(1)), at_start, types,
                   mlir_type(node.results[0]), out.location(node));
          out.bind(result_of(node), result);
        },
};

constexpr const Op* kOps[] = {&kSlice, &kPad, &kReverse, &kDynamicSlice, &kDynamicUpdateSlice};

}  // namespace

std::span<const Op* const> slice_ops() { return kOps; }

Tensor slice(Tensor x, Axis axis, int64_t start, int64_t size, int64_t stride) {
  const int64_t i = resolve_axis(axis, x.shape(), "slice");
  if (start == 0 && stride == 1 && size == x.dim(i)) {
    return x;
  }
  return apply(kSlice, {x}, SliceAttrs{i, start, size, stride});
}

std::vector<Tensor> split(Tensor x, Axis axis, int64_t parts) {
  const int64_t i = resolve_axis(axis, x.shape(), "split");
  check(parts > 0 && x.dim(i) % parts == 0, "[split] axis {} of {} does not divide into {} parts",
        i, to_string(x.shape()), parts);
  const int64_t size = x.dim(i) / parts;
  std::vector<Tensor> out;
  for (int64_t part = 0; part < parts; ++part) {
    out.push_back(slice(x, Axis(i), part * size, size));
  }
  return out;
}

Tensor pad(Tensor x, Axis axis, int64_t low, int64_t high, double value, int64_t interior) {
  const int64_t i = resolve_axis(axis, x.shape(), "pad");
  if (low == 0 && high == 0 && interior == 0) {
    return x;
  }
  const Tensor filler = constant(x.graph(), value, {x.dtype(), {}});
  return apply(kPad, {x, filler}, PadAttrs{i, low, high, interior});
}

Tensor reverse(Tensor x, Axis axis) {
  return apply(kReverse, {x}, ReverseAttrs{resolve_axis(axis, x.shape(), "reverse")});
}

Tensor dynamic_slice(Tensor x, Axis axis, Tensor start, int64_t size) {
  return apply(kDynamicSlice, {x, start},
               DynamicAttrs{resolve_axis(axis, x.shape(), "dynamic_slice"), size});
}

Tensor dynamic_update_slice(Tensor x, Axis axis, Tensor start, Tensor update) {
  return apply(kDynamicUpdateSlice, {x, update, start},
               AxisAttrs{resolve_axis(axis, x.shape(), "dynamic_update_slice")});
}

}  // namespace kinema
