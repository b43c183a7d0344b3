#include "graph/gradient_cases.h"

#include <cstdint>

namespace kinema {
namespace {

using Operands = std::span<const Tensor>;

HostArray indices(Dims dims, std::vector<int32_t> values) {
  return HostArray::from<int32_t>(DType::S32, std::move(dims), values);
}

GradientCase unary(const char* name, Tensor (*op)(Tensor), double low = -1.0, double high = 1.0) {
  return {name, [op](Operands x) { return op(x[0]); }, {random_f64({2, 3}, low, high)}};
}

GradientCase binary(const char* name, Tensor (*op)(Tensor, Tensor), double low = -1.0,
                    double high = 1.0) {
  return {name,
          [op](Operands x) { return op(x[0], x[1]); },
          {random_f64({2, 3}, low, high, 1), random_f64({2, 3}, low, high, 2)}};
}

// Values far from ties between them and, for the remainder, from integer quotients.
const HostArray& rising() {
  static const std::vector<double> values{0.3, -1.2, 0.9, 2.4, -0.6, 1.7};
  static const HostArray array = HostArray::from<double>(DType::F64, {2, 3}, values);
  return array;
}

}  // namespace

std::vector<GradientCase> elementwise_cases() {
  return {
      unary("negate", [](Tensor x) { return -x; }),
      unary("exp", exp),
      unary("log", log, 0.5, 2.0),
      unary("sqrt", sqrt, 0.5, 2.0),
      unary("rsqrt", rsqrt, 0.5, 2.0),
      unary("tanh", tanh),
      unary("sin", sin),
      unary("cos", cos),
      unary("logistic", logistic),
      unary("erf", erf),
      {"abs", [](Operands x) { return abs(x[0]); }, {rising()}},
      binary("add", operator+),
      binary("subtract", operator-),
      binary("multiply", operator*),
      binary("divide", operator/, 0.5, 2.0),
      binary("maximum", maximum),
      binary("minimum", minimum),
      binary("pow", pow, 0.5, 2.0),
      {"remainder",
       [](Operands x) { return remainder(x[0], 0.7 + 0.0 * x[1]) + remainder(x[0], x[1]); },
       {rising(), HostArray::from<double>(DType::F64, {2, 3},
                                          std::vector<double>{0.4, 0.5, -0.35, 0.7, 2.0, 0.6})}},
      {"scalars on both sides",
       [](Operands x) {
         return (2.0 - x[0]) * 3.0 / (1.5 + x[0]) + 0.5 / (x[0] + 2.0) - (x[0] - 1.0) / 4.0;
       },
       {random_f64({2, 3})}},
      {"operands that broadcast",
       [](Operands x) { return x[0] * x[1] + x[2]; },
       {random_f64({2, 1, 3}, -1, 1, 1), random_f64({4, 1}, -1, 1, 2), random_f64({}, -1, 1, 3)}},
      {"select",
       [](Operands x) { return select(compare(x[0], Comparison::LT, 0.1), x[0] * x[1], x[1]); },
       {random_f64({2, 3}, -1, 1, 1), random_f64({2, 3}, -1, 1, 2)}},
      // Through F32 and back, around 0, where F32 represents the step to 2^-24 = 6e-8.
      {"convert",
       [](Operands x) { return 3.0 * convert(convert(x[0], DType::F32), DType::F64); },
       {HostArray(Shape{DType::F64, {2}})}},
  };
}

std::vector<GradientCase> shape_cases() {
  const auto x23 = random_f64({2, 3});
  return {
      {"reshape",
       [](Operands x) {
         return reshape(x[0], {3, -1});
       },
       {x23}},
      {"transpose",
       [](Operands x) {
         return transpose(x[0], {2, 0, 1});
       },
       {random_f64({2, 3, 4})}},
      {"broadcast_in_dim",
       [](Operands x) {
         return broadcast_in_dim(x[0], {3, 2, 4}, {1, 2});
       },
       {random_f64({2, 1})}},
      {"expand_dims and squeeze",
       [](Operands x) { return squeeze(expand_dims(x[0], Axis(-1)) * 2.0, Axis(2)); },
       {x23}},
      {"slice", [](Operands x) { return slice(x[0], Axis(1), 1, 2, 3); }, {random_f64({2, 7})}},
      {"split",
       [](Operands x) {
         const std::vector<Tensor> parts = split(x[0], Axis(-1), 3);
         return parts[0] * parts[1] - parts[2];
       },
       {random_f64({2, 6})}},
      {"pad", [](Operands x) { return pad(x[0], Axis(0), 1, 2, 0.5, 1); }, {x23}},
      {"reverse", [](Operands x) { return reverse(x[0], Axis(1)); }, {x23}},
      {"concatenate",
       [](Operands x) {
         return concatenate({x[0], x[1], x[0]}, Axis(1));
       },
       {random_f64({2, 3}, -1, 1, 1), random_f64({2, 2}, -1, 1, 2)}},
      {"dynamic_slice",
       [](Operands x) { return dynamic_slice(x[0], Axis(1), x[1], 2); },
       {random_f64({2, 5}), indices({}, {2})}},
      {"dynamic_slice past the end",
       [](Operands x) { return dynamic_slice(x[0], Axis(1), x[1], 2); },
       {random_f64({2, 5}), indices({}, {9})}},
      {"dynamic_update_slice",
       [](Operands x) { return dynamic_update_slice(x[0], Axis(0), x[2], x[1]); },
       {random_f64({5, 2}, -1, 1, 1), random_f64({2, 2}, -1, 1, 2), indices({}, {1})}},
      {"take",
       [](Operands x) { return take(x[0], x[1]); },
       {random_f64({4, 2}), indices({2, 3}, {0, 3, 1, 1, 9, -4})}},
      {"sorted",
       [](Operands x) { return sorted(reshape(x[0], {6})) * reshape(x[1], {6}); },
       {rising(), random_f64({2, 3})}},
  };
}

std::vector<GradientCase> reduction_cases() {
  const auto x = random_f64({2, 3, 2});
  return {
      {"sum",
       [](Operands x) {
         return sum(x[0], {0, 2});
       },
       {x}},
      {"sum of all", [](Operands x) { return sum(x[0]); }, {x}},
      {"mean", [](Operands x) { return mean(x[0], {-2}, true); }, {x}},
      {"max", [](Operands x) { return max(x[0], {1}); }, {x}},
      {"min",
       [](Operands x) {
         return min(x[0], {0, 1}, true);
       },
       {x}},
  };
}

std::vector<GradientCase> product_cases() {
  const auto a = [](Dims dims) { return random_f64(std::move(dims), -1, 1, 1); };
  const auto b = [](Dims dims) { return random_f64(std::move(dims), -1, 1, 2); };
  const auto conv = [](ConvolutionAttrs attrs) {
    return [attrs](Operands x) { return convolution(x[0], x[1], attrs); };
  };
  return {
      {"dot_general with two contracted axes in other orders",
       [](Operands x) {
         return dot_general(
             x[0], x[1],
             {.lhs_contract = {3, 1}, .rhs_contract = {0, 3}, .lhs_batch = {2}, .rhs_batch = {1}});
       },
       {a({2, 3, 2, 4}), b({4, 2, 2, 3})}},
      {"dot_general to a scalar",
       [](Operands x) {
         return dot_general(x[0], x[1], {{0}, {0}});
       },
       {a({3}), b({3})}},
      {"outer product",
       [](Operands x) {
         return dot_general(x[0], x[1], {{}, {}});
       },
       {a({2}), b({3})}},
      {"matmul", [](Operands x) { return matmul(x[0], x[1]); }, {a({2, 2, 3}), b({2, 3, 2})}},
      {"einsum with batch and permuted result",
       [](Operands x) { return einsum("bhsd,bthd->shbt", x[0], x[1]); },
       {a({2, 1, 2, 3}), b({2, 2, 1, 3})}},
      {"einsum with lone letters",
       [](Operands x) { return einsum("abz,bcy->ac", x[0], x[1]); },
       {a({2, 3, 2}), b({3, 2, 2})}},
      {"einsum in swapped order",
       [](Operands x) { return einsum("de,bsd->bse", x[0], x[1]); },
       {a({2, 3}), b({1, 2, 2})}},
      {"convolution of one axis",
       conv({.strides = {1}, .pad = {{1, 1}}}),
       {a({2, 2, 4}), b({3, 2, 3})}},
      {"convolution with strides, dilation and uneven padding",
       conv({.strides = {2, 3}, .pad = {{2, 0}, {-1, 2}}, .rhs_dilation = {1, 2}}),
       {a({1, 2, 5, 6}), b({2, 2, 3, 2})}},
      {"convolution with a dilated input",
       conv({.strides = {1, 2}, .pad = {{1, 2}, {0, 1}}, .lhs_dilation = {2, 1}}),
       {a({1, 2, 3, 4}), b({2, 2, 2, 3})}},
      {"convolution in groups",
       conv({.strides = {2}, .pad = {{1, 0}}, .groups = 2}),
       {a({2, 4, 5}), b({6, 2, 2})}},
      {"causal convolution of video",
       conv({.strides = {1, 2, 2}, .pad = {{2, 0}, {0, 1}, {0, 1}}}),
       {a({1, 1, 2, 3, 2}), b({2, 1, 3, 2, 2})}},
      {"patch embedding",
       conv({.strides = {1, 2, 2}, .pad = {{0, 0}, {0, 0}, {0, 0}}}),
       {a({1, 2, 2, 4, 2}), b({3, 2, 1, 2, 2})}},
  };
}

std::vector<GradientCase> annotation_cases() {
  return {
      {"named", [](Operands x) { return exp(named(x[0], "attn_output")); }, {random_f64({3})}},
      {"with_sharding",
       [](Operands x) {
         return exp(with_sharding(x[0], {{{"data"}, {}}}));
       },
       {random_f64({2, 2})}},
      {"optimization_barrier",
       [](Operands x) {
         const std::vector<Tensor> barrier_outputs = optimization_barrier({x[0], x[1], x[0]});
         return barrier_outputs[0] * exp(barrier_outputs[1]);
       },
       {random_f64({3}, -1, 1, 1), random_f64({3}, -1, 1, 2)}},
      {"argmax has none and disturbs nothing",
       [](Operands x) {
         return x[0] * convert(expand_dims(argmax(x[0], Axis(1)), Axis(1)), DType::F64);
       },
       {random_f64({2, 3})}},
  };
}

std::vector<GradientCase> composed_cases() {
  return {
      unary("softmax", [](Tensor x) { return softmax(x); }),
      unary("silu", silu, -3.0, 3.0),
      unary("gelu_tanh", gelu_tanh, -3.0, 3.0),
      unary("gelu_erf", gelu_erf, -3.0, 3.0),
      {"geglu", [](Operands x) { return geglu(x[0]); }, {random_f64({3, 4}, -3, 3, 1)}},
      unary("square", square),
      unary("layer_norm", [](Tensor x) { return layer_norm(x, 1e-2); }),
      unary("rms_norm", [](Tensor x) { return rms_norm(x, 1e-2); }),
  };
}

std::vector<GradientCase> second_order_cases() {
  std::vector<GradientCase> cases;
  const auto add = [&](std::vector<GradientCase> family) {
    for (GradientCase& one : family) {
      cases.push_back({"gradient of " + one.name, gradient_of(one.function), one.inputs});
    }
  };
  add({unary("exp", exp), unary("rsqrt", rsqrt, 0.5, 2.0), unary("erf", erf),
       binary("divide", operator/, 0.5, 2.0), binary("pow", pow, 0.5, 2.0)});
  add(composed_cases());
  const std::vector<GradientCase> products = product_cases();
  add({products[0], products[8], products[10], shape_cases()[4], shape_cases()[11],
       shape_cases()[12], reduction_cases()[3]});
  return cases;
}

}  // namespace kinema
