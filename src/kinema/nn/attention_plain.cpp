#include "kinema/nn/attention_plain.h"

#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/op.h"
#include "kinema/nn/linear.h"

namespace kinema::nn {
namespace {

// y = e^x rounded to the products' dtype, z = sum of e^x over the last axis,  dx = (dy + dz) y. One
// op, because its gradient needs the rounded values only: composed of several ops, it would also
// keep the f32 values, the network's largest, for the backward pass.
struct ExpWeightsAttrs {
  DType dtype;
};

void emit_exp_weights(const Node& node, Emitter& out) {
  Graph body;
  body.set_scope_path(*node.scope);
  const Tensor x = body.input(node.shape(0));
  out.bind(x, out.name(node.input(0)));
  const Tensor e = exp(x);
  const DType dtype = node.get<ExpWeightsAttrs>().dtype;
  // The barrier keeps XLA from using e instead of the widened y, which would keep both in memory
  // (xla_allow_excess_precision).
  const Tensor y = e.dtype() == dtype ? e : optimization_barrier({convert(e, dtype)})[0];
  const std::vector<Tensor> results{y, sum(e, {-1}, true)};
  out.body(body, results);
  for (size_t i = 0; i < results.size(); ++i) {
    out.bind(const_cast<Node&>(node).result(static_cast<int64_t>(i)), out.name(results[i]));
  }
}

constexpr Op kExpWeights{
    .name = "exp_weights",
    .infer = nullptr,
    .gradient = [](Node& node, std::span<const Tensor> dys,
                   const std::vector<bool>&) -> Cotangents {
      const Tensor y = node.result(0);
      const DType dtype = node.shape(0).dtype;
      const Tensor dy = dys[0] ? as(dys[0], dtype) : constant(*node.graph, 0.0, node.shape(0));
      return {(dys[1] ? dy + dys[1] : dy) * as(y, dtype)};
    },
    .emit = emit_exp_weights,
};

struct ExpWeights {
  Tensor values;  // [..., t] in the given dtype
  Tensor total;   // [..., 1] in x's dtype
};

ExpWeights exp_weights(Tensor x, DType dtype) {
  Shape total = x.shape();
  total.dims.back() = 1;
  Node& node = x.graph().add_multi(kExpWeights, {x}, ExpWeightsAttrs{dtype},
                                   {Shape{dtype, x.shape().dims}, total});
  return {node.result(0), node.result(1)};
}

}  // namespace

// The weights are not normalised; the result is divided by their sum instead, because it has t / d
// times fewer values; so has the backward pass's reduction. The maximum only keeps the exponential
// finite; the result does not depend on it, so no gradient flows through it.
Tensor dot_product(Tensor q, Tensor k, Tensor v, Tensor bias, Precision precision, double scale) {
  const DType sums = q.dtype() == DType::F64 ? DType::F64 : DType::F32;
  Tensor scores = dot_general(
      q, k, {.lhs_contract = {3}, .rhs_contract = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}},
      precision, sums);
  if (scale != 1.0) {
    scores = scores * scale;
  }
  if (bias) {
    scores = scores + as(bias, sums);
  }
  const Tensor largest = stop_gradient(max(scores, {-1}, true));
  const auto [weights, total] = exp_weights(scores - largest, v.dtype());
  const Tensor y = dot_general(
      weights, v,
      {.lhs_contract = {3}, .rhs_contract = {1}, .lhs_batch = {0, 1}, .rhs_batch = {0, 2}},
      precision, sums);
  return as(transpose(y, {0, 2, 1, 3}) / transpose(total, {0, 2, 1, 3}), q.dtype());
}

Tensor quantized_dot_product(Tensor q, Tensor k, Tensor v, Tensor bias, Precision precision,
                             double scale, const QuantizedProduct& how) {
  const DType sums = q.dtype() == DType::F64 ? DType::F64 : DType::F32;
  Tensor scores = quantized_dot(
      q, k, {.lhs_contract = {3}, .rhs_contract = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}},
      how, precision);
  scores = as(scores, sums) * scale;
  if (bias) {
    scores = scores + as(bias, sums);
  }
  const Tensor y = quantized_dot(
      softmax(scores, v.dtype()), v,
      {.lhs_contract = {3}, .rhs_contract = {1}, .lhs_batch = {0, 1}, .rhs_batch = {0, 2}}, how,
      precision);
  return as(transpose(y, {0, 2, 1, 3}), q.dtype());
}

}  // namespace kinema::nn
