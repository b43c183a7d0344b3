#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

Shape reduced(const Node& node) {
  const Shape& x = node.shape(0);
  const std::vector<int64_t>& axes = node.get<ReduceAttrs>().axes;
  Shape out{x.dtype, {}};
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!std::ranges::binary_search(axes, i)) {
      out.dims.push_back(x.dims[static_cast<size_t>(i)]);
    }
  }
  return out;
}

Shape reduced_number(const Node& node) {
  check(node.shape(0).dtype != DType::PRED, "[{}] the operand is {}, numbers are needed",
        node.op->name, to_string(node.shape(0)));
  return reduced(node);
}

Shape reduced_pred(const Node& node) {
  check(node.shape(0).dtype == DType::PRED, "[{}] the operand is {}, pred is needed", node.op->name,
        to_string(node.shape(0)));
  return reduced(node);
}

// A reduction of `x` broadcast back to x's sizes.
Tensor repeat_like(Tensor reduced, Tensor x, const std::vector<int64_t>& axes) {
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!std::ranges::binary_search(axes, i)) {
      kept.push_back(i);
    }
  }
  return broadcast_in_dim(reduced, x.shape().dims, kept);
}

// `stablehlo.reduce` with one binary operation as its body, from `initial`.
void emit_reduce(const Node& node, Emitter& out, const char* combine, const std::string& initial) {
  const Shape scalar{node.shape(0).dtype, {}};
  const std::string type = mlir_type(scalar);
  const std::string start = emit_splat(out, node, initial, scalar);
  const std::string result = out.fresh();
  const std::string a = out.fresh();
  const std::string b = out.fresh();
  const std::string c = out.fresh();
  out.line("{} = \"stablehlo.reduce\"({}, {}) ({{", result, out.name(node.input(0)), start);
  out.line("^bb0({}: {}, {}: {}):", a, type, b, type);
  out.line("  {} = \"{}\"({}, {}) : ({}, {}) -> {}", c, combine, a, b, type, type, type);
  out.line("  \"stablehlo.return\"({}) : ({}) -> ()", c, type);
  out.line("}}) {{dimensions = {}}} : ({}, {}) -> {}{}", i64_array(node.get<ReduceAttrs>().axes),
           mlir_type(node.shape(0)), type, mlir_type(node.results[0]), out.location(node));
  out.bind(result_of(node), result);
}

// The start of a maximum (sign -1) or minimum (sign +1): the end of the dtype's range.
std::string far_end(DType dtype, int sign) {
  if (dtype == DType::F8E4M3FN) {
    return mlir_literal(sign * 448.0, dtype);  // the dtype has no infinity
  }
  if (is_float(dtype)) {
    return mlir_literal(sign * std::numeric_limits<double>::infinity(), dtype);
  }
  const int64_t bits = 8 * byte_size(dtype);
  const bool is_signed = dtype >= DType::S8 && dtype <= DType::S64;
  if (!is_signed) {
    return sign < 0 ? "0" : fmt::format("{}", ~uint64_t{0} >> (64 - bits));
  }
  const int64_t largest = std::numeric_limits<int64_t>::max() >> (64 - bits);
  return fmt::format("{}", sign < 0 ? -largest - 1 : largest);
}

}  // namespace

// y = sum of x,  dx = dy repeated
constinit const Op kSum{
    .name = "sum",
    .infer = reduced_number,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      return {repeat_like(dy, y.node().input(0), y.node().get<ReduceAttrs>().axes)};
    },
    .emit =
        [](const Node& node, Emitter& out) {
          emit_reduce(node, out, "stablehlo.add", mlir_literal(0.0, node.shape(0).dtype));
        },
};

namespace {

// dx = dy [x = y] / (number of elements equal to y): divided equally among ties
Cotangents extremum_gradient(Tensor y, Tensor dy) {
  const Tensor x = y.node().input(0);
  const std::vector<int64_t>& axes = y.node().get<ReduceAttrs>().axes;
  const Tensor hit = convert(compare(x, Comparison::EQ, repeat_like(y, x, axes)), x.dtype());
  return {hit * repeat_like(dy / sum(hit, axes), x, axes)};
}

// y = max of x
constexpr Op kMax{
    .name = "max",
    .infer = reduced_number,
    .gradient = extremum_gradient,
    .emit =
        [](const Node& node, Emitter& out) {
          emit_reduce(node, out, "stablehlo.maximum", far_end(node.shape(0).dtype, -1));
        },
};

// y = min of x
constexpr Op kMin{
    .name = "min",
    .infer = reduced_number,
    .gradient = extremum_gradient,
    .emit =
        [](const Node& node, Emitter& out) {
          emit_reduce(node, out, "stablehlo.minimum", far_end(node.shape(0).dtype, +1));
        },
};

// y = all x are true; no gradient
constexpr Op kAll{
    .name = "all",
    .infer = reduced_pred,
    .gradient = Gradient::none(),
    .emit = [](const Node& node, Emitter& out) { emit_reduce(node, out, "stablehlo.and", "true"); },
};

// y = any x is true; no gradient
constexpr Op kAny{
    .name = "any",
    .infer = reduced_pred,
    .gradient = Gradient::none(),
    .emit = [](const Node& node, Emitter& out) { emit_reduce(node, out, "stablehlo.or", "false"); },
};

constexpr const Op* kOps[] = {&kSum, &kMax, &kMin, &kAll, &kAny};

Tensor reduce(const Op& op, Tensor x, std::vector<int64_t> axes, bool keep_dims) {
  axes = resolve_axes(op.name, x.shape(), std::move(axes));
  if (axes.empty()) {  // the reduction of a scalar is the scalar
    return x;
  }
  Dims kept = x.shape().dims;
  for (const int64_t axis : axes) {
    kept[static_cast<size_t>(axis)] = 1;
  }
  const Tensor y = apply(op, {x}, ReduceAttrs{std::move(axes)});
  return keep_dims ? reshape(y, std::move(kept)) : y;
}

}  // namespace

std::span<const Op* const> reduce_ops() { return kOps; }

Tensor sum(Tensor x, std::vector<int64_t> axes, bool keep_dims) {
  // Half types lose small terms next to a large partial sum.
  const Tensor wide = convert(x, accumulation_dtype(x.dtype()));
  return convert(reduce(kSum, wide, std::move(axes), keep_dims), x.dtype());
}

Tensor mean(Tensor x, std::vector<int64_t> axes, bool keep_dims) {
  check(is_float(x.dtype()), "[mean] the operand is {}, a floating-point dtype is needed",
        to_string(x.shape()));
  Tensor y = convert(x, accumulation_dtype(x.dtype()));
  // One axis at a time, from the last, so that no sum has many terms: a CPU adds each element to a
  // running sum, which in f32 costs the fourth digit after a million elements. (XLA would merge
  // sums of sums into one.)
  axes = resolve_axes("mean", x.shape(), std::move(axes));
  std::ranges::reverse(axes);
  for (const int64_t axis : axes) {
    y = reduce(kSum, y, {axis}, keep_dims) / static_cast<double>(x.dim(axis));
  }
  return convert(y, x.dtype());
}

namespace {

/// A wider dtype does not change an extremum. XLA for CPUs with bfloat16 instructions aborts on a
/// bfloat16 extremum: it fuses the conversions that it inserts into the combining function.
Tensor extremum(const Op& op, Tensor x, std::vector<int64_t> axes, bool keep_dims) {
  const DType wide = is_float(x.dtype()) ? accumulation_dtype(x.dtype()) : x.dtype();
  return convert(reduce(op, convert(x, wide), std::move(axes), keep_dims), x.dtype());
}

}  // namespace

Tensor max(Tensor x, std::vector<int64_t> axes, bool keep_dims) {
  return extremum(kMax, x, std::move(axes), keep_dims);
}

Tensor min(Tensor x, std::vector<int64_t> axes, bool keep_dims) {
  return extremum(kMin, x, std::move(axes), keep_dims);
}

Tensor all(Tensor x, std::vector<int64_t> axes) { return reduce(kAll, x, std::move(axes), false); }

Tensor any(Tensor x, std::vector<int64_t> axes) { return reduce(kAny, x, std::move(axes), false); }

Tensor argmax(Tensor x, Axis axis) {
  const int64_t at = resolve_axis(axis, x.shape(), "argmax");
  const Shape index{DType::S32, x.shape().dims};
  const Tensor is_largest = compare(x, Comparison::EQ, max(x, {at}, true));
  const Tensor position = iota(x.graph(), index, Axis(at));
  const Tensor beyond = constant(x.graph(), static_cast<double>(x.dim(at)), index);
  return min(select(is_largest, position, beyond), {at});
}

}  // namespace kinema
