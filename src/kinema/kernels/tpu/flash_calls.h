#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/kernels/settings.h"

/// Calls of the kernels with what stands around them: heads first, filled up to whole blocks.
namespace kinema::kernels {

/// Inputs and results of `fused("flash_attention")`; `y` is the first result's dtype.
std::vector<Tensor> call_flash_forward(std::span<const Tensor> in, DType y,
                                       const FlashAttentionSettings& settings,
                                       std::string_view chip);

/// Inputs and results of `fused("flash_attention_backward")`; `result` is the results' dtype.
std::vector<Tensor> call_flash_backward(std::span<const Tensor> in, DType result,
                                        const FlashAttentionBackwardSettings& settings,
                                        std::string_view chip);

}  // namespace kinema::kernels
