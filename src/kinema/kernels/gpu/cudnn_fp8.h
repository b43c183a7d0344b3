#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/kernels/settings.h"

/// cuDNN's forward attention with 8-bit products (e4m3), as a custom call that XLA knows.
namespace kinema::kernels {

/// Why 8 bits are unsupported on this chip or for q [b, s, n, d] and k [b, t, n, d], and the
/// nearest that works; empty if supported.
std::string cudnn_fp8_refusal(const Shape& q, const Shape& k, std::string_view chip);

/// Whether a supported call gains by 8 bits: only with many keys, none of them masked. Other calls
/// stay in 16 bits.
bool cudnn_fp8_is_faster(const Shape& k, bool masked);

/// Inputs and results as in `fused("flash_attention")` without `keys`; `y` is the first result's
/// dtype. Without `lse` the second result is not computed and must not be read.
///
/// Each of q, k and v is scaled so that its largest magnitude becomes e4m3's largest value; the
/// result is NaN if an input is not finite.
std::vector<Tensor> cudnn_flash_forward_fp8(std::span<const Tensor> in, DType y,
                                            const FlashAttentionSettings& settings,
                                            std::string_view chip, bool lse = true);

}  // namespace kinema::kernels
