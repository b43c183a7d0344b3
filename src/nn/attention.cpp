#include "nn/attention.h"

#include <cmath>

#include "core/error.h"
#include "nn/linear.h"

namespace kinema::nn {
namespace {

DType sum_dtype(Tensor x) { return x.dtype() == DType::F64 ? DType::F64 : DType::F32; }

void check_shapes(Tensor q, Tensor k, Tensor v) {
  check(q.rank() == 4 && k.rank() == 4 && k.shape() == v.shape() && q.dtype() == k.dtype() &&
            q.dim(0) == k.dim(0) && q.dim(2) == k.dim(2) && q.dim(3) == k.dim(3),
        "[attention] q {}, k {}, v {} do not fit: q is [b, s, n, d], k and v are [b, t, n, d]",
        to_string(q.shape()), to_string(k.shape()), to_string(v.shape()));
}

/// Scores of all pairs at once, [b, n, s, t].
Tensor dot_product(Tensor q, Tensor k, Tensor v, Precision precision) {
  const DType sums = sum_dtype(q);
  const Tensor scores = dot_general(
      q, k, {.lhs_contract = {3}, .rhs_contract = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}},
      precision, sums);
  const Tensor weights =
      softmax(scores * (1.0 / std::sqrt(static_cast<double>(q.dim(3)))), v.dtype());
  const Tensor y = dot_general(
      weights, v,
      {.lhs_contract = {3}, .rhs_contract = {1}, .lhs_batch = {0, 1}, .rhs_batch = {0, 2}},
      precision, sums);
  return as(transpose(y, {0, 2, 1, 3}), q.dtype());
}

}  // namespace

Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options) {
  check_shapes(q, k, v);
  switch (options.kind) {
    case AttentionKind::DOT_PRODUCT:
      return dot_product(q, k, v, options.precision);
  }
  fail("[attention] unknown kind {}", static_cast<int>(options.kind));
}

}  // namespace kinema::nn
