#pragma once

#include <string>

#include "kinema/graph/emit.h"
#include "kinema/kernels/kernel_set.h"

namespace kinema::kernels {

struct GpuLoweringOptions {
  /// Name in the plugin or by its maker.
  std::string chip;
  /// The program has more than one device: kernels are only possible inside manual regions.
  bool mesh = false;
  GpuAttention attention = {};
  bool norm_rotation = true;
};

/// Replaces `fused` attention, and norm with rotation. Throws an Error if the requested kernel does
/// not support a shape.
Lowering gpu_lowering(const GpuLoweringOptions& options);

KernelSet gpu_kernel_set(const Target& target, const KernelOptions& options);

}  // namespace kinema::kernels
