#pragma once

#include "kinema/graph/emit.h"

namespace kinema::kernels {

/// What the CPU lowering replaces.
struct CpuLoweringOptions {
  bool f32 = true;
  bool bf16 = true;
  bool s8 = true;
  /// Products with fewer floating-point operations are left to the compiler.
  double min_flops = 4e6;
  /// The same for convolutions.
  double min_convolution_flops = 1e6;
  /// The same for attention.
  double min_attention_flops = 4e6;
  /// Records products, convolutions and attention under their model paths.
  bool trace = false;
};

/// Replaces large dots by calls of the product kernel, including transposes on either side, or a
/// bias and the rounding to BF16; large convolutions by calls of the convolution kernel; and
/// `fused` nodes by calls of the kernel of their name (settings.h).
Lowering cpu_lowering(const CpuLoweringOptions& options = {});

}  // namespace kinema::kernels
