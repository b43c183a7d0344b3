#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/kernels/settings.h"
#include "kinema/kernels/tpu/flash.h"

/// Kernel calls with the surrounding operations: heads first, padding to whole blocks.
namespace kinema::kernels {

/// The kernel alone, on operands in its layout. `vmem`: its VMEM limit in bytes; 0: the compiler's
/// default.
std::vector<Tensor> call_kernel(const FlashKernel& kernel, std::vector<Tensor> operands,
                                int64_t vmem);

/// s32 [heads / heads_per_tile]: 1 for tiles of heads whose scores are within kFixedMaximumBound,
/// by the norms of their longest query and key, and that have at least one key. q [b, s, n, d], k
/// [b, t, n, d]; `keys`: an S32 scalar, the number of valid keys, or empty for all.
Tensor tiles_within_bound(Tensor q, Tensor k, Tensor keys, const FlashWork& work);

/// Inputs and results as in `fused("flash_attention")`; `y` is the first result's dtype, `maximum`
/// overrides the chip's default.
std::vector<Tensor> call_flash_forward(std::span<const Tensor> in, DType y,
                                       const FlashAttentionSettings& settings,
                                       std::string_view chip,
                                       std::optional<FlashMaximum> maximum = {});

/// Inputs and results as in `fused("flash_attention_backward")`; `result` is the results' dtype.
std::vector<Tensor> call_flash_backward(std::span<const Tensor> in, DType result,
                                        const FlashAttentionBackwardSettings& settings,
                                        std::string_view chip);

}  // namespace kinema::kernels
