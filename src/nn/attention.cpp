#include "nn/attention.h"

#include <cmath>

#include "core/error.h"
#include "graph/emit.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace kinema::nn {
namespace {

// y = e^x rounded to a narrower dtype,  dx = dy y.
// As one op, because e^x and its rounding as two would both be kept for the backward pass: the
// largest values of the network, three bytes where one is enough.
struct RoundedExpAttrs {
  DType dtype;
};

constexpr Op kRoundedExp{
    .name = "rounded_exp",
    .infer = [](const Node& node) -> Shape {
      return {node.get<RoundedExpAttrs>().dtype, node.shape(0).dims};
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const DType dtype = y.node().input(0).dtype();
      return {as(dy, dtype) * as(y, dtype)};
    },
    .emit =
        [](const Node& node, Emitter& out) {
          Graph body;
          body.set_scope_path(*node.scope);
          const Tensor x = body.input(node.shape(0));
          out.bind(x, out.name(node.input(0)));
          const Tensor y = convert(exp(x), node.get<RoundedExpAttrs>().dtype);
          out.body(body, std::vector<Tensor>{y});
          out.bind(const_cast<Node&>(node).result(), out.name(y));
        },
};

Tensor rounded_exp(Tensor x, DType dtype) {
  return x.dtype() == dtype ? exp(x) : apply(kRoundedExp, {x}, RoundedExpAttrs{dtype});
}

void check_shapes(Tensor q, Tensor k, Tensor v) {
  check(q.rank() == 4 && k.rank() == 4 && k.shape() == v.shape() && q.dtype() == k.dtype() &&
            q.dim(0) == k.dim(0) && q.dim(2) == k.dim(2) && q.dim(3) == k.dim(3),
        "[attention] q {}, k {}, v {} do not fit: q is [b, s, n, d], k and v are [b, t, n, d]",
        to_string(q.shape()), to_string(k.shape()), to_string(v.shape()));
}

/// Scores of all pairs at once, [b, n, s, t].
///
/// The weights stay without their sum, by which the result is divided instead: it is smaller by
/// t / d, and so is what the backward pass reduces. The maximum only keeps the exponential finite;
/// the result does not depend on it, so no gradient flows through it.
Tensor dot_product(Tensor q, Tensor k, Tensor v, Precision precision, double scale) {
  const DType sums = q.dtype() == DType::F64 ? DType::F64 : DType::F32;
  Tensor scores = dot_general(
      q, k, {.lhs_contract = {3}, .rhs_contract = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}},
      precision, sums);
  if (scale != 1.0) {
    scores = scores * scale;
  }
  const Tensor largest = stop_gradient(max(scores, {-1}, true));
  const Tensor weights = rounded_exp(scores - largest, v.dtype());
  const Tensor total = sum(as(weights, sums), {-1}, true);
  const Tensor y = dot_general(
      weights, v,
      {.lhs_contract = {3}, .rhs_contract = {1}, .lhs_batch = {0, 1}, .rhs_batch = {0, 2}},
      precision, sums);
  return as(transpose(y, {0, 2, 1, 3}) / transpose(total, {0, 2, 1, 3}), q.dtype());
}

}  // namespace

Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options) {
  check_shapes(q, k, v);
  const double scale =
      options.scale != 0.0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(q.dim(3)));
  switch (options.kind) {
    case AttentionKind::DOT_PRODUCT:
      return dot_product(q, k, v, options.precision, scale);
  }
  fail("[attention] unknown kind {}", static_cast<int>(options.kind));
}

}  // namespace kinema::nn
