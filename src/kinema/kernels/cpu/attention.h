#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/matrix_product.h"

namespace kinema::kernels {

/// softmax(scale q k^T + bias) v per head; q and y [b, s, n, d], k and v [b, t, n, d], dense.
struct AttentionPlan {
  int64_t batch, queries, keys, heads, width;
  /// Element strides of the bias along batch, heads, queries and keys; 0 where it is broadcast.
  std::array<int64_t, 4> bias = {};

  /// Of the two products together.
  double flops() const;
};

/// Runs the plan; all operands of `dtype` (F32 or BF16) except the bias, which is f32 or null.
/// Softmax in f32 over a few rows of scores at a time, so memory does not grow with the number of
/// queries; weights are rounded to `dtype` before the second product, unless that is computed in
/// F32 (product_dtype). The result does not depend on how the work is split over threads. `lse` [b,
/// n, s], if not null, receives the log of the sums of e^score. Throws an Error when oneDNN
/// refuses.
void attention(const AttentionPlan& plan, DType dtype, double scale, const void* q, const void* k,
               const void* v, const float* bias, void* y, float* lse,
               const ParallelFor& parallel_for);

struct AttentionGradientOperands {
  const void* q;
  const void* k;
  const void* v;
  const float* lse;
  const float* delta;
  const void* dy;
  void* dq;
  void* dk;
  void* dv;
};

/// Gradients of `attention` without a bias, from lse and delta [b, n, s], which is the sum over d
/// of y dy; dy has q's shape. Gradients have dtype `out`: `dtype` or F32; sums in f32. Recomputes
/// the weights, a block at a time. The result does not depend on how the work is split over
/// threads. Throws an Error when oneDNN refuses.
void attention_backward(const AttentionPlan& plan, DType dtype, DType out, double scale,
                        const AttentionGradientOperands& operands, const ParallelFor& parallel_for);

/// The plan as the attribute `plan` of a custom call, and back.
std::vector<int64_t> to_words(const AttentionPlan& plan);
AttentionPlan attention_from_words(const int64_t* words, int64_t count);

}  // namespace kinema::kernels
