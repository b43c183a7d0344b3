#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/kernels/settings.h"

/// cuDNN's forward attention with 8-bit products (e4m3), which XLA knows by name.
namespace kinema::kernels {

/// Why no call on this chip can be in 8 bits, or none of q [b, s, n, d] and k [b, t, n, d], with
/// the nearest that works; empty where one can.
std::string cudnn_fp8_refusal(const Shape& q, const Shape& k, std::string_view chip);

/// Whether a call that is not refused gains by it: that of many keys, all of which count. The
/// others are left to 16 bits.
bool cudnn_fp8_pays(const Shape& k, bool masked);

/// Inputs and results of `fused("flash_attention")` without `keys`; `y` is the first result's
/// dtype. Without `lse` that result is not computed, and nobody may read it.
///
/// Each of q, k and v is scaled so that its largest magnitude is e4m3's; with a value that is not
/// finite the result is NaN.
std::vector<Tensor> cudnn_flash_forward_fp8(std::span<const Tensor> in, DType y,
                                            const FlashAttentionSettings& settings,
                                            std::string_view chip, bool lse = true);

}  // namespace kinema::kernels
