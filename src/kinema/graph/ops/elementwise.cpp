#include <cmath>
#include <numbers>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

// ---- One operand ---------------------------------------------------------------------------

// y = -x,  dx = -dy
constexpr Op kNegate{
    .name = "negate",
    .infer = same_signed,
    .gradient = [](Tensor, Tensor dy) -> Cotangents { return {-dy}; },
    .mlir = "stablehlo.negate",
    .free_to_recompute = true,
};

// y = e^x,  dx = dy y
constexpr Op kExp{
    .name = "exp",
    .infer = same_float,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents { return {dy * y}; },
    .mlir = "stablehlo.exponential",
};

// y = ln x,  dx = dy / x
constexpr Op kLog{
    .name = "log",
    .infer = same_float,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents { return {dy / y.node().input(0)}; },
    .mlir = "stablehlo.log",
};

// y = x^(1/2),  dx = dy / (2 y)
constexpr Op kSqrt{
    .name = "sqrt",
    .infer = same_float,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents { return {0.5 * dy / y}; },
    .mlir = "stablehlo.sqrt",
    .free_to_recompute = true,
};

// y = x^(-1/2),  dx = -dy y^3 / 2
constexpr Op kRsqrt{
    .name = "rsqrt",
    .infer = same_float,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents { return {-0.5 * dy * (y * y * y)}; },
    .mlir = "stablehlo.rsqrt",
    .free_to_recompute = true,
};

// y = tanh x,  dx = dy (1 - y^2)
constexpr Op kTanh{
    .name = "tanh",
    .infer = same_float,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents { return {dy * (1.0 - y * y)}; },
    .mlir = "stablehlo.tanh",
};

// y = sin x,  dx = dy cos x
constexpr Op kSin{
    .name = "sin",
    .infer = same_float,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents { return {dy * cos(y.node().input(0))}; },
    .mlir = "stablehlo.sine",
};

// y = cos x,  dx = -dy sin x
constexpr Op kCos{
    .name = "cos",
    .infer = same_float,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents { return {-(dy * sin(y.node().input(0)))}; },
    .mlir = "stablehlo.cosine",
};

// y = 1 / (1 + e^-x),  dx = dy y (1 - y)
constexpr Op kLogistic{
    .name = "logistic",
    .infer = same_float,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents { return {dy * (y * (1.0 - y))}; },
    .mlir = "stablehlo.logistic",
};

// y = 2 / sqrt(pi) integral_0^x e^(-t^2) dt,  dx = dy 2 / sqrt(pi) e^(-x^2)
constexpr Op kErf{
    .name = "erf",
    .infer = same_float,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Tensor x = y.node().input(0);
      return {dy * (2.0 * std::numbers::inv_sqrtpi * exp(-(x * x)))};
    },
    .mlir = "chlo.erf",
};

// y = |x|,  dx = dy sign(x)
constexpr Op kAbs{
    .name = "abs",
    .infer = same_signed,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents { return {dy * sign(y.node().input(0))}; },
    .mlir = "stablehlo.abs",
    .free_to_recompute = true,
};

// y = -1, 0 or 1
constexpr Op kSign{
    .name = "sign",
    .infer = same_signed,
    .gradient = Gradient::none(),
    .mlir = "stablehlo.sign",
    .free_to_recompute = true,
};

// y = the largest integer <= x
constexpr Op kFloor{
    .name = "floor",
    .infer = same_float,
    .gradient = Gradient::none(),
    .mlir = "stablehlo.floor",
    .free_to_recompute = true,
};

// y = the nearest integer, ties to even
constexpr Op kRoundEven{
    .name = "round_even",
    .infer = same_float,
    .gradient = Gradient::none(),
    .mlir = "stablehlo.round_nearest_even",
    .free_to_recompute = true,
};

// ---- Two operands of one shape -------------------------------------------------------------

}  // namespace

// y = a + b,  da = dy,  db = dy
constinit const Op kAdd{
    .name = "add",
    .infer = same_for_all,
    .gradient = [](Tensor, Tensor dy) -> Cotangents {
      return {dy, dy};
    },
    .mlir = "stablehlo.add",
    .free_to_recompute = true,
};

namespace {

// y = a - b,  da = dy,  db = -dy
constexpr Op kSubtract{
    .name = "subtract",
    .infer = same_for_all,
    .gradient = [](Tensor, Tensor dy) -> Cotangents {
      return {dy, -dy};
    },
    .mlir = "stablehlo.subtract",
    .free_to_recompute = true,
};

}  // namespace

// y = a b,  da = dy b,  db = dy a
constinit const Op kMultiply{
    .name = "multiply",
    .infer = same_for_all,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      return {dy * y.node().input(1), dy * y.node().input(0)};
    },
    .mlir = "stablehlo.multiply",
    .free_to_recompute = true,
};

namespace {

// y = a / b,  da = dy / b,  db = -dy y / b
constexpr Op kDivide{
    .name = "divide",
    .infer = same_for_all,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Tensor da = dy / y.node().input(1);
      return {da, -(da * y)};
    },
    .mlir = "stablehlo.divide",
    .free_to_recompute = true,
};

// The part of dy for `x`: all of it where y = x, half in a tie.
Tensor chosen_share(Tensor y, Tensor x, Tensor other, Tensor dy) {
  const Tensor share = select(compare(x, Comparison::EQ, other), full_like(dy, 0.5), ones_like(dy));
  return select(compare(x, Comparison::EQ, y), dy * share, zeros_like(dy));
}

Cotangents extremum_gradient(Tensor y, Tensor dy) {
  const Tensor a = y.node().input(0);
  const Tensor b = y.node().input(1);
  return {chosen_share(y, a, b, dy), chosen_share(y, b, a, dy)};
}

// y = max(a, b),  da = dy [a > b] + dy [a = b] / 2,  db likewise
constexpr Op kMaximum{
    .name = "maximum",
    .infer = same_for_all,
    .gradient = extremum_gradient,
    .mlir = "stablehlo.maximum",
    .free_to_recompute = true,
};

// y = min(a, b),  da = dy [a < b] + dy [a = b] / 2,  db likewise
constexpr Op kMinimum{
    .name = "minimum",
    .infer = same_for_all,
    .gradient = extremum_gradient,
    .mlir = "stablehlo.minimum",
    .free_to_recompute = true,
};

// y = a^b,  da = dy b a^(b-1) (0 for b = 0),  db = dy y ln a (0 for a <= 0, where it is undefined)
constexpr Op kPow{
    .name = "pow",
    .infer = same_for_all,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Tensor a = y.node().input(0);
      const Tensor b = y.node().input(1);
      const Tensor da = select(compare(b, Comparison::EQ, 0.0), zeros_like(a), b * pow(a, b - 1.0));
      const Tensor positive = compare(a, Comparison::GT, 0.0);
      const Tensor db = select(positive, y * log(select(positive, a, ones_like(a))), zeros_like(a));
      return {dy * da, dy * db};
    },
    .mlir = "stablehlo.power",
};

// y = a - b trunc(a / b),  da = dy,  db = -dy trunc(a / b)
constexpr Op kRemainder{
    .name = "remainder",
    .infer = same_for_all,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Tensor a = y.node().input(0);
      const Tensor b = y.node().input(1);
      // (a - y) / b is the integer up to rounding, without the jumps of trunc.
      return {dy, -(dy * stop_gradient((a - y) / b))};
    },
    .mlir = "stablehlo.remainder",
};

// ---- Bits ----------------------------------------------------------------------------------

Shape same_bits(const Node& node) {
  check(!is_float(node.shape(0).dtype), "[{}] the operand is {}, integers or pred are needed",
        node.op->name, to_string(node.shape(0)));
  return same_for_all(node);
}

// y = a & b, bitwise; no gradient
constexpr Op kAnd{
    .name = "and", .infer = same_bits, .gradient = Gradient::none(), .mlir = "stablehlo.and"};

// y = a | b, bitwise; no gradient
constexpr Op kOr{
    .name = "or", .infer = same_bits, .gradient = Gradient::none(), .mlir = "stablehlo.or"};

// y = a ^ b, bitwise; no gradient
constexpr Op kXor{
    .name = "xor", .infer = same_bits, .gradient = Gradient::none(), .mlir = "stablehlo.xor"};

// y = ~a, bitwise; no gradient
constexpr Op kNot{
    .name = "not", .infer = same_bits, .gradient = Gradient::none(), .mlir = "stablehlo.not"};

// y = a << b; no gradient
constexpr Op kShiftLeft{.name = "shift_left",
                        .infer = same_bits,
                        .gradient = Gradient::none(),
                        .mlir = "stablehlo.shift_left"};

// y = a >> b, shifts in zeros; no gradient
constexpr Op kShiftRightLogical{.name = "shift_right_logical",
                                .infer = same_bits,
                                .gradient = Gradient::none(),
                                .mlir = "stablehlo.shift_right_logical"};

constexpr const Op* kOps[] = {&kNegate,   &kExp,       &kLog,
                              &kSqrt,     &kRsqrt,     &kTanh,
                              &kSin,      &kCos,       &kLogistic,
                              &kErf,      &kAbs,       &kSign,
                              &kFloor,    &kAdd,       &kSubtract,
                              &kMultiply, &kDivide,    &kMaximum,
                              &kMinimum,  &kPow,       &kRemainder,
                              &kAnd,      &kOr,        &kXor,
                              &kNot,      &kShiftLeft, &kShiftRightLogical,
                              &kRoundEven};

// Brings both operands to the common shape, then adds the node.
Tensor binary(const Op& op, Tensor a, Tensor b) {
  check_same_dtype(op.name, a.shape(), b.shape());
  const Dims dims = broadcast_dims(op.name, a.shape(), b.shape());
  return apply(op, {broadcast_to(a, dims), broadcast_to(b, dims)});
}

}  // namespace

std::span<const Op* const> elementwise_ops() { return kOps; }

Tensor operator-(Tensor x) { return apply(kNegate, {x}); }
Tensor exp(Tensor x) { return apply(kExp, {x}); }
Tensor log(Tensor x) { return apply(kLog, {x}); }
Tensor sqrt(Tensor x) { return apply(kSqrt, {x}); }
Tensor rsqrt(Tensor x) { return apply(kRsqrt, {x}); }
Tensor tanh(Tensor x) { return apply(kTanh, {x}); }
Tensor sin(Tensor x) { return apply(kSin, {x}); }
Tensor cos(Tensor x) { return apply(kCos, {x}); }
Tensor logistic(Tensor x) { return apply(kLogistic, {x}); }
Tensor erf(Tensor x) { return apply(kErf, {x}); }
Tensor abs(Tensor x) { return apply(kAbs, {x}); }
Tensor sign(Tensor x) { return apply(kSign, {x}); }
Tensor floor(Tensor x) { return apply(kFloor, {x}); }
Tensor round_even(Tensor x) { return apply(kRoundEven, {x}); }

Tensor operator+(Tensor a, Tensor b) { return binary(kAdd, a, b); }
Tensor operator-(Tensor a, Tensor b) { return binary(kSubtract, a, b); }
Tensor operator*(Tensor a, Tensor b) { return binary(kMultiply, a, b); }
Tensor operator/(Tensor a, Tensor b) { return binary(kDivide, a, b); }
Tensor maximum(Tensor a, Tensor b) { return binary(kMaximum, a, b); }
Tensor minimum(Tensor a, Tensor b) { return binary(kMinimum, a, b); }
Tensor pow(Tensor a, Tensor b) { return binary(kPow, a, b); }
Tensor remainder(Tensor a, Tensor b) { return binary(kRemainder, a, b); }

Tensor operator+(Tensor a, double b) { return a + full_like(a, b); }
Tensor operator+(double a, Tensor b) { return full_like(b, a) + b; }
Tensor operator-(Tensor a, double b) { return a - full_like(a, b); }
Tensor operator-(double a, Tensor b) { return full_like(b, a) - b; }
Tensor operator*(Tensor a, double b) { return a * full_like(a, b); }
Tensor operator*(double a, Tensor b) { return full_like(b, a) * b; }
Tensor operator/(Tensor a, double b) { return a / full_like(a, b); }
Tensor operator/(double a, Tensor b) { return full_like(b, a) / b; }
Tensor maximum(Tensor a, double b) { return maximum(a, full_like(a, b)); }
Tensor minimum(Tensor a, double b) { return minimum(a, full_like(a, b)); }

Tensor operator&(Tensor a, Tensor b) { return binary(kAnd, a, b); }
Tensor operator|(Tensor a, Tensor b) { return binary(kOr, a, b); }
Tensor operator^(Tensor a, Tensor b) { return binary(kXor, a, b); }
Tensor logical_not(Tensor a) { return apply(kNot, {a}); }
Tensor shift_left(Tensor a, Tensor b) { return binary(kShiftLeft, a, b); }
Tensor shift_right_logical(Tensor a, Tensor b) { return binary(kShiftRightLogical, a, b); }

}  // namespace kinema
