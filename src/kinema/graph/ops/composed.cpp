#include <cmath>
#include <numbers>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/ops/rules.h"

/// Functions of one tensor that are composed of simpler ops but have their own gradient, which
/// reads x or y only: autodiff of the composition would keep several values of x's size for the
/// backward pass. All compute in F32 for bf16 and f16 and round once. Those whose gradient reads x
/// are free to recompute: the backward pass has x anyway, so y need not be kept.
namespace kinema {
namespace {

struct EpsilonAttrs {
  double epsilon;
};

struct SoftmaxAttrs {
  DType out;
};

Tensor widen(Tensor x) { return convert(x, accumulation_dtype(x.dtype())); }

// Writes the node as the body that `Forward` builds from its operand.
template <Tensor (*Forward)(const Node& node, Tensor x)>
void emit_written_out(const Node& node, Emitter& out) {
  Graph body;
  body.set_scope_path(*node.scope);
  const Tensor x = body.input(node.shape(0));
  out.bind(x, out.name(node.input(0)));
  const Tensor y = convert(Forward(node, widen(x)), node.results[0].dtype);
  out.body(body, std::vector<Tensor>{y});
  out.bind(result_of(node), out.name(y));
}

Shape same_float_rows(const Node& node) {
  check(node.shape(0).rank() >= 1, "[{}] the operand is {}, an axis is needed", node.op->name,
        to_string(node.shape(0)));
  return same_float(node);
}

Tensor last_mean(Tensor x) { return mean(x, {-1}, true); }

// ---- Softmax -------------------------------------------------------------------------------

// y = e^(x - max x) / sum e^(x - max x),  dx = y (dy - sum dy y)
Tensor softmax_forward(const Node&, Tensor x) {
  const Tensor e = exp(x - max(x, {-1}, true));
  return e / sum(e, {-1}, true);
}

constexpr Op kSoftmax{
    .name = "softmax",
    .infer = [](const Node& node) -> Shape {
      const Shape x = same_float_rows(node);
      const DType out = node.get<SoftmaxAttrs>().out;
      check(is_float(out), "[softmax] {} cannot hold the result of {}", to_string(out),
            to_string(x));
      return {out, x.dims};
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Tensor p = widen(y);
      const Tensor dp = widen(dy);
      return {convert(p * (dp - sum(dp * p, {-1}, true)), y.node().input(0).dtype())};
    },
    .emit = emit_written_out<softmax_forward>,
};

// ---- Activations ---------------------------------------------------------------------------

// The gradients below compute differently from the forward pass: the compiler would find equal
// expressions and keep their value, a second one of x's size.

// y = x s,  s = logistic(x),  dx = dy s (1 + x (1 - s))
Tensor silu_forward(const Node&, Tensor x) { return x * logistic(x); }

constexpr Op kSilu{
    .name = "silu",
    .infer = same_float,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Tensor x = widen(y.node().input(0));
      const Tensor s = exp(minimum(x, 0.0)) / (1.0 + exp(-abs(x)));
      return {convert(widen(dy) * (s * (1.0 + x * (1.0 - s))), y.dtype())};
    },
    .emit = emit_written_out<silu_forward>,
    .free_to_recompute = true,
};

// sqrt(2 / pi) and the cubic coefficient of arXiv:1606.08415
constexpr double kGeluScale = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;

// y = x (1 + t) / 2,  t = tanh u,  u = a (x + b x^3),  dx = dy s (1 + 2 x (1 - s) du/dx)
// with s = (1 + t) / 2 = logistic(2 u).
Tensor gelu_tanh_forward(const Node&, Tensor x) {
  return (0.5 * x) * (1.0 + tanh(kGeluScale * (x + kGeluCubic * (x * x * x))));
}

}  // namespace

constinit const Op kGeluTanh{
    .name = "gelu_tanh",
    .infer = same_float,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Tensor x = widen(y.node().input(0));
      const Tensor x2 = x * x;
      const Tensor s = logistic((2.0 * kGeluScale) * (x + kGeluCubic * (x2 * x)));
      const Tensor slope = (2.0 * kGeluScale) * (1.0 + (3.0 * kGeluCubic) * x2);
      const Tensor dx = s * (1.0 + x * (1.0 - s) * slope);
      return {convert(widen(dy) * dx, y.dtype())};
    },
    .emit = emit_written_out<gelu_tanh_forward>,
    .free_to_recompute = true,
};

namespace {

// Phi(x) = (1 + erf(x / sqrt 2)) / 2
Tensor normal_cdf(Tensor x) { return 0.5 * (1.0 + erf((1.0 / std::numbers::sqrt2) * x)); }
// 1 - Phi(-x)
Tensor normal_cdf_again(Tensor x) { return 0.5 - 0.5 * erf((-1.0 / std::numbers::sqrt2) * x); }
Tensor normal_density(Tensor x) {
  return (std::numbers::inv_sqrtpi / std::numbers::sqrt2) * exp(-0.5 * (x * x));
}

// y = x Phi(x),  dx = dy (Phi(x) + x phi(x))
Tensor gelu_erf_forward(const Node&, Tensor x) { return x * normal_cdf(x); }

constexpr Op kGeluErf{
    .name = "gelu_erf",
    .infer = same_float,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Tensor x = widen(y.node().input(0));
      return {convert(widen(dy) * (normal_cdf_again(x) + x * normal_density(x)), y.dtype())};
    },
    .emit = emit_written_out<gelu_erf_forward>,
    .free_to_recompute = true,
};

// x = [value, gate],  y = value g,  g = gate Phi(gate),
// dvalue = dy g,  dgate = dy value (Phi(gate) + gate phi(gate))
Tensor geglu_forward(const Node&, Tensor x) {
  const std::vector<Tensor> halves = split(x, Axis(-1), 2);
  return halves[0] * (halves[1] * normal_cdf(halves[1]));
}

constexpr Op kGeglu{
    .name = "geglu",
    .infer = [](const Node& node) -> Shape {
      Shape x = same_float_rows(node);
      check(x.dims.back() % 2 == 0, "[geglu] the last axis of {} has no two halves", to_string(x));
      x.dims.back() /= 2;
      return x;
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      // Delays the computation until dy exists: compilers schedule values that depend only on
      // x during the forward pass, and keep them until here.
      const std::vector<Tensor> late = optimization_barrier({y.node().input(0), dy});
      const std::vector<Tensor> halves = split(late[0], Axis(-1), 2);
      const Tensor value = widen(halves[0]);
      const Tensor gate = widen(halves[1]);
      const Tensor below = normal_cdf_again(gate);
      const Tensor g = widen(late[1]);
      return {concatenate({convert(g * (gate * below), y.dtype()),
                           convert(g * value * (below + gate * normal_density(gate)), y.dtype())},
                          Axis(-1))};
    },
    .emit = emit_written_out<geglu_forward>,
    .free_to_recompute = true,
};

// ---- Norms over the last axis --------------------------------------------------------------

// The backward pass computes the two statistics again: it reads x anyway, and an f32 value of x's
// size need not be kept.
struct Normalised {
  Tensor value;    // (x - mean) r
  Tensor inverse;  // r = 1 / sqrt(var + eps)
};

Normalised normalise(Tensor x, double epsilon) {
  const Tensor centred = x - last_mean(x);
  const Tensor r = rsqrt(last_mean(centred * centred) + epsilon);
  return {centred * r, r};
}

// y = (x - mean x) r,  r = (var x + eps)^(-1/2),  dx = r (dy - mean dy - y mean(dy y))
Tensor layer_norm_forward(const Node& node, Tensor x) {
  return normalise(x, node.get<EpsilonAttrs>().epsilon).value;
}

constexpr Op kLayerNorm{
    .name = "layer_norm",
    .infer = same_float_rows,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Tensor g = widen(dy);
      const auto [value, r] =
          normalise(widen(y.node().input(0)), y.node().get<EpsilonAttrs>().epsilon);
      const Tensor dx = r * (g - last_mean(g) - value * last_mean(g * value));
      return {convert(dx, y.dtype())};
    },
    .emit = emit_written_out<layer_norm_forward>,
    .free_to_recompute = true,
};

Tensor inverse_rms(Tensor x, double epsilon) { return rsqrt(last_mean(x * x) + epsilon); }

// y = x r,  r = (mean x^2 + eps)^(-1/2),  dx = r (dy - y mean(dy y))
Tensor rms_norm_forward(const Node& node, Tensor x) {
  return x * inverse_rms(x, node.get<EpsilonAttrs>().epsilon);
}

constexpr Op kRmsNorm{
    .name = "rms_norm",
    .infer = same_float_rows,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Tensor x = widen(y.node().input(0));
      const Tensor g = widen(dy);
      const Tensor r = inverse_rms(x, y.node().get<EpsilonAttrs>().epsilon);
      const Tensor value = x * r;
      return {convert(r * (g - value * last_mean(g * value)), y.dtype())};
    },
    .emit = emit_written_out<rms_norm_forward>,
    .free_to_recompute = true,
};

constexpr const Op* kOps[] = {&kSoftmax, &kSilu,      &kGeluTanh, &kGeluErf,
                              &kGeglu,   &kLayerNorm, &kRmsNorm};

}  // namespace

std::span<const Op* const> composed_ops() { return kOps; }

Tensor softmax(Tensor x) { return softmax(x, x.dtype()); }
Tensor softmax(Tensor x, DType out) { return apply(kSoftmax, {x}, SoftmaxAttrs{out}); }
Tensor silu(Tensor x) { return apply(kSilu, {x}); }
Tensor gelu_tanh(Tensor x) { return apply(kGeluTanh, {x}); }
Tensor gelu_erf(Tensor x) { return apply(kGeluErf, {x}); }
Tensor geglu(Tensor x) { return apply(kGeglu, {x}); }
Tensor square(Tensor x) { return x * x; }

Tensor layer_norm(Tensor x, double epsilon) {
  return apply(kLayerNorm, {x}, EpsilonAttrs{epsilon});
}

Tensor rms_norm(Tensor x, double epsilon) { return apply(kRmsNorm, {x}, EpsilonAttrs{epsilon}); }

}  // namespace kinema
