#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/kernels/settings.h"

/// Calls of cuDNN's fused attention, as custom calls that XLA knows.
namespace kinema::kernels {

/// Why cuDNN does not support q [b, s, n, d] and k [b, t, n, d], and the nearest supported shape;
/// empty if it does.
std::string cudnn_refusal(const Shape& q, const Shape& k, std::string_view chip);

/// Inputs and results as in `fused("flash_attention")`; `y` is the first result's dtype. Without
/// `lse` the second result is not computed and must not be read.
std::vector<Tensor> cudnn_flash_forward(std::span<const Tensor> in, DType y,
                                        const FlashAttentionSettings& settings,
                                        std::string_view chip, bool lse = true);

/// Inputs and results as in `fused("flash_attention_backward")`; `result` is the results' dtype, to
/// which they are converted from q's.
std::vector<Tensor> cudnn_flash_backward(std::span<const Tensor> in, DType result,
                                         const FlashAttentionBackwardSettings& settings,
                                         std::string_view chip);

}  // namespace kinema::kernels
