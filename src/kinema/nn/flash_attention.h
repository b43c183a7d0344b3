#pragma once

#include "kinema/graph/ops.h"
#include "kinema/kernels/settings.h"

namespace kinema::nn {

/// Attention in blocks that never holds the scores of all pairs, on one device.
struct FlashOptions {
  double scale = 1.0;
  Precision precision = Precision::DEFAULT;
  kernels::FlashBlockSizes blocks = {};
  /// Keys that fill up the last block are left out; false lets them count with a score of 0.
  bool mask_padding = true;
  /// As FlashAttentionSettings has it.
  bool base2 = true;
  /// As FlashAttentionBackwardSettings has it.
  bool delta_of_y = true;
};

/// softmax(scale q k^T) v and the logarithm of the weights' sum.
struct FlashResult {
  Tensor y;    // [b, s, n, d]
  Tensor lse;  // [b, n, s], f32 (f64 for f64)
};

/// q [b, s, n, d], k and v [b, t, n, d] of one dtype -> y in `out`. `keys` (S32 scalar, or empty
/// for t) is how many of the keys count; where it is 0, lse is about -1e38 and y is of no use.
///
/// One `fused("flash_attention")`: blocks in StableHLO unless the target has a kernel.
FlashResult flash_forward(Tensor q, Tensor k, Tensor v, Tensor keys, DType out,
                          const FlashOptions& options);

struct FlashGradients {
  Tensor dq, dk, dv;  // of the shapes of q, k, v
};

/// The gradients from what flash_forward saved. `delta` [b, n, s] is `flash_delta(y, dy)`. With the
/// lse, delta and y of all keys, k and v may be any part of them: the parts' dq add up. Sums are of
/// lse's dtype, the gradients of `out`: a narrow one is rounded block by block, so that no wide
/// gradient of all keys is ever held.
///
/// One `fused("flash_attention_backward")`.
FlashGradients flash_backward(Tensor q, Tensor k, Tensor v, Tensor lse, Tensor delta, Tensor dy,
                              Tensor y, Tensor keys, DType out, const FlashOptions& options);

/// sum over d of y dy: [b, s, n, d] twice -> [b, n, s] in lse's dtype.
Tensor flash_delta(Tensor y, Tensor dy);

}  // namespace kinema::nn
