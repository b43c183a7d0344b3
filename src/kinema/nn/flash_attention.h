#pragma once

#include "kinema/graph/ops.h"
#include "kinema/kernels/settings.h"

namespace kinema::nn {

/// Attention in blocks on one device, which never stores the scores of all pairs.
struct FlashOptions {
  double scale = 1.0;
  Precision precision = Precision::DEFAULT;
  kernels::FlashBlockSizes blocks = {};
  /// Padding keys in the last block are masked; if false, they have a score of 0.
  bool mask_padding = true;
  /// See FlashAttentionSettings.
  bool base2 = true;
  /// See FlashAttentionBackwardSettings.
  bool delta_of_y = true;
};

/// softmax(scale q k^T) v and the logarithm of the sum of the softmax weights.
struct FlashResult {
  Tensor y;    // [b, s, n, d]
  Tensor lse;  // [b, n, s], f32 (f64 for f64)
};

/// q [b, s, n, d], k and v [b, t, n, d] of one dtype -> y in `out`. Only the first `keys` keys (S32
/// scalar, or empty for t) are used; if it is 0, lse is about -1e38 and y is undefined.
///
/// One `fused("flash_attention")`: in StableHLO unless the target has a kernel.
FlashResult flash_forward(Tensor q, Tensor k, Tensor v, Tensor keys, DType out,
                          const FlashOptions& options);

struct FlashGradients {
  Tensor dq, dk, dv;  // of the shapes of q, k, v
};

/// The gradients, from the results that flash_forward saved. `delta` [b, n, s] is `flash_delta(y,
/// dy)`. With lse, delta and y of all keys, k and v may be any part of the keys: the parts' dq add
/// up. Sums have lse's dtype, the gradients dtype `out`. If `out` is a half type, gradients are
/// rounded block by block, so that the f32 gradient of all keys is never stored.
///
/// One `fused("flash_attention_backward")`.
FlashGradients flash_backward(Tensor q, Tensor k, Tensor v, Tensor lse, Tensor delta, Tensor dy,
                              Tensor y, Tensor keys, DType out, const FlashOptions& options);

/// sum over d of y dy: [b, s, n, d] twice -> [b, n, s] in lse's dtype.
Tensor flash_delta(Tensor y, Tensor dy);

}  // namespace kinema::nn
