#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/kernels/settings.h"
#include "kinema/kernels/tpu/flash.h"

/// Calls of the kernels with what stands around them: heads first, filled up to whole blocks.
namespace kinema::kernels {

/// The kernel alone, on operands as it wants them. `vmem`: bytes that it may take of VMEM; 0: the
/// compiler's default.
std::vector<Tensor> call_kernel(const FlashKernel& kernel, std::vector<Tensor> operands,
                                int64_t vmem);

/// Inputs and results of `fused("flash_attention")`; `y` is the first result's dtype.
std::vector<Tensor> call_flash_forward(std::span<const Tensor> in, DType y,
                                       const FlashAttentionSettings& settings,
                                       std::string_view chip);

/// Inputs and results of `fused("flash_attention_backward")`; `result` is the results' dtype.
std::vector<Tensor> call_flash_backward(std::span<const Tensor> in, DType result,
                                        const FlashAttentionBackwardSettings& settings,
                                        std::string_view chip);

}  // namespace kinema::kernels
