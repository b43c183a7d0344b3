#pragma once

#include <cstdint>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/matrix_product.h"

namespace kinema::kernels {

/// A group norm (arXiv:1803.08494) of a dense x [batch, channels, pixels].
struct GroupNormPlan {
  int64_t batch, channels, pixels;
  int64_t groups;
  double epsilon;
};

/// Norm and SiLU of one channel of one sample: silu((x - mean) scale + shift).
struct ActivatedChannel {
  float mean, scale, shift;
};

/// One entry per sample and channel, from x (F32 or BF16), weight and bias [channels]. A channel is
/// summed in F32 over at most 512 pixels, beyond in F64, in an order that does not depend on
/// threads.
std::vector<ActivatedChannel> activated_channels(const GroupNormPlan& plan, DType dtype,
                                                 const void* x, const float* weight,
                                                 const float* bias,
                                                 const ParallelFor& parallel_for);

/// x = silu((x - mean) scale + shift).
void activate(float* x, int64_t n, const ActivatedChannel& channel);

}  // namespace kinema::kernels
