#pragma once

#include <cstdint>
#include <vector>

#include "kinema/graph/ops.h"

/// Settings of `fused` nodes (graph/scan.h) that kernels may replace. The node's name identifies
/// the kernel and the type of its settings.
namespace kinema::kernels {

/// `fused("gradient_sizes", GradientSizesSettings, tensors)` -> sums of squares and largest
/// magnitudes, F32 [sum of rows] each.
///
/// Tensor i (F32 or BF16) is split into `rows[i]` equal parts along its first axis, with one entry
/// per part.
struct GradientSizesSettings {
  std::vector<int64_t> rows;
  /// Elements are clamped to this magnitude in the sums; 0 = no limit.
  double max_value;
};

/// `fused("attention", AttentionSettings, {q, k, v, bias})` -> softmax(scale q k^T + bias) v.
///
/// q and the result [b, s, n, d], k and v [b, t, n, d], all of one dtype; bias f32, broadcastable
/// to [b, n, s, t].
struct AttentionSettings {
  double scale;
};

/// Numbers of queries and keys per block, named as in configurations. TPU kernels use all of them;
/// the blockwise form uses `block_q` and `block_kv_compute` forward, `block_q_dkv` and
/// `block_kv_dkv_compute` backward.
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
  /// False: these are defaults, and kernels choose the best sizes for their chip.
  bool asked = false;
  /// Heads per grid step of a TPU kernel.
  int64_t heads_per_tile = 1;
  /// On-chip memory limit of a TPU kernel; 0 = the chip's default.
  int64_t vmem_limit_bytes = 0;
  bool operator==(const FlashBlockSizes&) const = default;
};

/// `fused("flash_attention", FlashAttentionSettings, {q, k, v[, keys]})` -> y, lse:
///
///   y = softmax(scale q k^T) v,  lse = log sum_t exp(scale q k^T)
///
/// q [b, s, n, d], k and v [b, t, n, d] of one dtype, y [b, s, n, d], lse [b, n, s] f32 (f64 for
/// f64). `keys`, an S32 scalar, is the number of valid keys; the rest of the t keys are masked.
struct FlashAttentionSettings {
  double scale;
  FlashBlockSizes blocks;
  /// Compute exponentials as powers of two, in kernels that support both.
  bool base2 = true;
};

/// `fused("flash_attention_backward", FlashAttentionBackwardSettings, {q, k, v, lse, delta, dy, y[,
/// keys]})` -> dq, dk, dv of one dtype, summed in lse's.
///
/// As above; delta [b, n, s] is the sum over d of y dy; dy and y have q's shape and dtype. If k and
/// v are only a part of the keys behind lse and y, dk and dv are that part's gradients, and the
/// parts' dq add up.
struct FlashAttentionBackwardSettings {
  double scale;
  FlashBlockSizes blocks;
  bool base2 = true;
  /// False: delta is not computed from y, so kernels that compute it from y and dy cannot be used.
  bool delta_of_y = true;
};

/// `fused("rms_norm_rotate", RmsNormRotateSettings, {x, weight, cos, sin})` -> y [b, s, n, d]:
///
///   z = x weight / sqrt(mean x^2 + epsilon),  y = z cos + (z with its pairs swapped) sin
///
/// x [b, s, n d] and y of one dtype, mean over n d; weight f32 [n d]; cos, sin f32 [s, 1, d / 2,
/// 2], shared by all heads.
struct RmsNormRotateSettings {
  double epsilon;
};

/// `fused("activated_convolution", ActivatedConvolutionSettings, {x, scale, shift, w, bias})` -> y:
///
///   y = convolution(silu(norm(x) scale + shift), w) + bias
///
/// x [b, c, spatial...], w and y of one dtype; the norm is over groups of adjacent channels and all
/// pixels; scale, shift [c] and bias [o] f32.
struct ActivatedConvolutionSettings {
  int64_t groups;
  double epsilon;
  ConvolutionAttrs convolution;
};

/// `fused("adamw", AdamWSettings, {p, mu, nu, gradient, scalars})` -> p, mu, nu.
///
/// Tensors of one shape, F32 or narrower, and F32 scalars [5]: the gradient's factor, 1 / (1 -
/// b1^t), 1 / (1 - b2^t), the learning rate, and 0 to leave the state unchanged.
struct AdamWSettings {
  double b1, b2, eps, weight_decay;
  /// Gradient elements are clamped to this magnitude; 0 = no limit.
  double max_value;
};

}  // namespace kinema::kernels
