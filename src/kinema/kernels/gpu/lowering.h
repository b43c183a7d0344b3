#pragma once

#include <string>

#include "kinema/graph/emit.h"
#include "kinema/kernels/kernel_set.h"

namespace kinema::kernels {

struct GpuLoweringOptions {
  /// As plugins or their makers call it.
  std::string chip;
  /// The program has more than one device: kernels stand inside manual regions only.
  bool mesh = false;
  GpuAttention attention = {};
  bool norm_rotation = true;
};

/// Takes over `fused` attention, and norm with rotation. Throws an Error for a shape that the
/// kernel which was asked for does not take.
Lowering gpu_lowering(const GpuLoweringOptions& options);

KernelSet gpu_kernel_set(const Target& target, const KernelOptions& options);

}  // namespace kinema::kernels
