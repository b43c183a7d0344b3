#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/kernels/kernel_text.h"
#include "kinema/kernels/settings.h"

/// Calls of the Triton kernels: q, k, v and their gradients stay where they lie.
namespace kinema::kernels {

/// The configuration of a kernel's call, which runs on so many threads of 32.
std::string triton_configuration(const KernelText& kernel, int64_t warps, int64_t stages);

/// Why the kernels do not take q [b, s, n, d] and k [b, t, n, d] of `fused("flash_attention")` or
/// its backward pass, with what they take; empty where they do.
std::string triton_refusal(const Shape& q, const Shape& k, DType result, double scale);

/// Inputs and results of `fused("flash_attention")`; `y` is the first result's dtype. Block sizes
/// are the kernels' own.
std::vector<Tensor> triton_flash_forward(std::span<const Tensor> in, DType y,
                                         const FlashAttentionSettings& settings,
                                         std::string_view chip);

/// Inputs and results of `fused("flash_attention_backward")`; `result` is the results' dtype.
std::vector<Tensor> triton_flash_backward(std::span<const Tensor> in, DType result,
                                          const FlashAttentionBackwardSettings& settings,
                                          std::string_view chip);

struct TritonLoweringOptions {
  /// As plugins or their makers call it.
  std::string chip;
  /// The program has more than one device: kernels stand inside manual regions only.
  bool mesh = false;
};

/// Takes over `fused` attention wherever the kernels can.
Lowering triton_lowering(const TritonLoweringOptions& options);

}  // namespace kinema::kernels
