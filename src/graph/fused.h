#pragma once

#include <cstdint>
#include <vector>

/// Settings of the kernels that `fused` (graph/scan.h) calls may be taken over by.
namespace kinema {

/// `fused("sums_of_squares", SumsOfSquaresSettings, tensors)` -> F32 [sum of rows].
///
/// Tensor i (F32 or BF16) is cut into `rows[i]` equal parts along its first axis, one sum each.
struct SumsOfSquaresSettings {
  std::vector<int64_t> rows;
};

/// `fused("attention", AttentionSettings, {q, k, v[, bias]})` -> softmax(scale q k^T + bias) v.
///
/// q and the result [b, s, n, d], k and v [b, t, n, d], of one dtype; bias f32, each size that of
/// [b, n, s, t] or 1.
struct AttentionSettings {
  double scale;
};

/// `fused("adamw", AdamWSettings, {p, mu, nu, gradient, scalars})` -> p, mu, nu.
///
/// F32 tensors of one shape (the gradient may be BF16) and F32 scalars [5]: the gradient's factor,
/// 1 / (1 - b1^t), 1 / (1 - b2^t), the learning rate, and 0 where the state must stay as it is.
struct AdamWSettings {
  double b1, b2, eps, weight_decay;
  /// Limit of every gradient element's size; 0 = none.
  double max_value;
};

}  // namespace kinema
