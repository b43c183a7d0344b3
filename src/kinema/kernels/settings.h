#pragma once

#include <cstdint>
#include <vector>

#include "kinema/graph/ops.h"

/// Settings of the kernels that `fused` (graph/scan.h) calls may be taken over by. A kernel goes by
/// its name: a call of one of these names comes with the settings that stand beside it here.
namespace kinema::kernels {

/// `fused("gradient_sizes", GradientSizesSettings, tensors)` -> sums of squares and largest
/// magnitudes, F32 [sum of rows] each.
///
/// Tensor i (F32 or BF16) is cut into `rows[i]` equal parts along its first axis, one entry each.
struct GradientSizesSettings {
  std::vector<int64_t> rows;
  /// Limit of every element's size in the sums; 0 = none.
  double max_value;
};

/// `fused("attention", AttentionSettings, {q, k, v, bias})` -> softmax(scale q k^T + bias) v.
///
/// q and the result [b, s, n, d], k and v [b, t, n, d], of one dtype; bias f32, each size that of
/// [b, n, s, t] or 1.
struct AttentionSettings {
  double scale;
};

/// How many queries and keys are worked on together, under the names of configurations. The kernels
/// of TPUs take all of them; the blockwise form takes `block_q` and `block_kv_compute` forward,
/// `block_q_dkv` and `block_kv_dkv_compute` backward.
struct FlashBlockSizes {
  int64_t block_q = 512;
  int64_t block_kv = 512;
  int64_t block_kv_compute = 512;
  int64_t block_q_dkv = 512;
  int64_t block_kv_dkv = 512;
  int64_t block_kv_dkv_compute = 512;
  int64_t block_q_dq = 512;
  int64_t block_kv_dq = 512;
  bool use_fused_bwd_kernel = false;
  /// False: nobody asked for these sizes, and kernels take those that are best on their chip.
  bool asked = false;
  /// Heads that one step of a TPU kernel's grid works on.
  int64_t heads_per_tile = 1;
  /// What a TPU kernel may take of on-chip memory; 0 = what the chip's default leaves it.
  int64_t vmem_limit_bytes = 0;
  bool operator==(const FlashBlockSizes&) const = default;
};

/// `fused("flash_attention", FlashAttentionSettings, {q, k, v[, keys]})` -> y, lse:
///
///   y = softmax(scale q k^T) v,  lse = log sum_t exp(scale q k^T)
///
/// q [b, s, n, d], k and v [b, t, n, d] of one dtype, y [b, s, n, d], lse [b, n, s] f32 (f64 for
/// f64). `keys`, an S32 scalar, is how many of the t keys count.
struct FlashAttentionSettings {
  double scale;
  FlashBlockSizes blocks;
  /// Exponentials as powers of two, in kernels that have both.
  bool base2 = true;
};

/// `fused("flash_attention_backward", FlashAttentionBackwardSettings,
/// {q, k, v, lse, delta, dy, y[, keys]})` -> dq, dk, dv of one dtype, summed up in lse's.
///
/// As above; delta [b, n, s] is the sum over d of y dy, dy and y have q's shape and dtype. Of keys
/// that are a part of those that lse and y are of, these are the parts' gradients; the parts' dq
/// add up.
struct FlashAttentionBackwardSettings {
  double scale;
  FlashBlockSizes blocks;
  bool base2 = true;
  /// False: delta is another one, and kernels that form it from y and dy are of no use.
  bool delta_of_y = true;
};

/// `fused("rms_norm_rotate", RmsNormRotateSettings, {x, weight, cos, sin})` -> y [b, s, n, d]:
///
///   z = x weight / sqrt(mean x^2 + epsilon),  y = z cos + (z with its pairs swapped) sin
///
/// x [b, s, n d] and y of one dtype, the mean over n d; weight f32 [n d]; cos, sin f32 [s, 1, d /
/// 2, 2], the same for every head.
struct RmsNormRotateSettings {
  double epsilon;
};

/// `fused("activated_convolution", ActivatedConvolutionSettings, {x, scale, shift, w, bias})` -> y:
///
///   y = convolution(silu(norm(x) scale + shift), w) + bias
///
/// x [b, c, spatial...], w and y of one dtype; the norm over groups of neighbouring channels and
/// all pixels; scale, shift [c] and bias [o] f32.
struct ActivatedConvolutionSettings {
  int64_t groups;
  double epsilon;
  ConvolutionAttrs convolution;
};

/// `fused("adamw", AdamWSettings, {p, mu, nu, gradient, scalars})` -> p, mu, nu.
///
/// Tensors of one shape, F32 or narrower, and F32 scalars [5]: the gradient's factor,
/// 1 / (1 - b1^t), 1 / (1 - b2^t), the learning rate, and 0 where the state must stay as it is.
struct AdamWSettings {
  double b1, b2, eps, weight_decay;
  /// Limit of every gradient element's size; 0 = none.
  double max_value;
};

}  // namespace kinema::kernels
