#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/kernels/kernel_text.h"
#include "kinema/kernels/settings.h"

/// Calls of the Triton kernels: q, k, v and their gradients are used without a copy.
namespace kinema::kernels {

/// The backend configuration of a kernel's call, which runs on `warps` warps of 32 threads.
std::string triton_configuration(const KernelText& kernel, int64_t warps, int64_t stages);

/// Why the kernels do not support q [b, s, n, d] and k [b, t, n, d] of `fused("flash_attention")`
/// or its backward pass, and what they support; empty if they do.
std::string triton_refusal(const Shape& q, const Shape& k, DType result, double scale);

/// Inputs and results as in `fused("flash_attention")`; `y` is the first result's dtype. Block
/// sizes are the kernels' own.
std::vector<Tensor> triton_flash_forward(std::span<const Tensor> in, DType y,
                                         const FlashAttentionSettings& settings,
                                         std::string_view chip);

/// Inputs and results as in `fused("flash_attention_backward")`; `result` is the results' dtype.
std::vector<Tensor> triton_flash_backward(std::span<const Tensor> in, DType result,
                                          const FlashAttentionBackwardSettings& settings,
                                          std::string_view chip);

struct TritonLoweringOptions {
  /// Name in the plugin or by its maker.
  std::string chip;
  /// The program has more than one device: kernels are only possible inside manual regions.
  bool mesh = false;
};

/// Replaces `fused` attention wherever the kernels support it.
Lowering triton_lowering(const TritonLoweringOptions& options);

}  // namespace kinema::kernels
