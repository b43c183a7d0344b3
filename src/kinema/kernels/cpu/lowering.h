#pragma once

#include "kinema/graph/emit.h"

namespace kinema::kernels {

/// What the CPU lowering replaces.
struct CpuLoweringOptions {
  bool f32 = true;
  bool bf16 = true;
  bool s8 = true;
  /// Products below this many floating-point operations stay with the compiler.
  double min_flops = 4e6;
  /// The same for convolutions.
  double min_convolution_flops = 1e6;
  /// The same for attention.
  double min_attention_flops = 4e6;
  /// Products, convolutions and attention are recorded under the model's path.
  bool trace = false;
};

/// Writes large dots as calls of the product kernel, transposes on either side, or a bias and the
/// rounding to BF16, included, large
/// convolutions as calls of the convolution kernel, and `fused` calls as those of the kernel of
/// their name (settings.h).
Lowering cpu_lowering(const CpuLoweringOptions& options = {});

}  // namespace kinema::kernels
