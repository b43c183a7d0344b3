#pragma once

#include "kinema/graph/emit.h"
#include "kinema/pjrt/plugin.h"

namespace kinema::kernels {

/// Names of the kernels in programs, and their XLA_FFI_Handlers.
inline constexpr const char* kDotTarget = "kinema.dot";
inline constexpr const char* kConvolutionTarget = "kinema.convolution";
inline constexpr const char* kAttentionTarget = "kinema.attention";
inline constexpr const char* kAdamWTarget = "kinema.adamw";
inline constexpr const char* kGradientSizesTarget = "kinema.gradient_sizes";
inline constexpr const char* kBarrierTarget = "kinema.barrier";
/// The same kernels, which say in recordings (core/trace.h) when they run.
inline constexpr const char* kTracedDotTarget = "kinema.dot.traced";
inline constexpr const char* kTracedConvolutionTarget = "kinema.convolution.traced";
inline constexpr const char* kTracedAttentionTarget = "kinema.attention.traced";
void* dot_handler();
void* convolution_handler();
void* attention_handler();
void* adamw_handler();
void* gradient_sizes_handler();
void* barrier_handler();
void* traced_dot_handler();
void* traced_convolution_handler();
void* traced_attention_handler();

/// What the CPU lowering replaces.
struct CpuLoweringOptions {
  bool f32 = true;
  bool bf16 = true;
  /// Products below this many floating-point operations stay with the compiler.
  double min_flops = 4e6;
  /// The same for convolutions.
  double min_convolution_flops = 1e6;
  /// The same for attention.
  double min_attention_flops = 4e6;
  /// Products, convolutions and attention are recorded under the model's path.
  bool trace = false;
};

/// Makes the kernels known to a CPU plugin; may be called more than once.
void register_cpu_kernels(const pjrt::Plugin& plugin);

/// Writes large dots as calls of the product kernel, transposes on either side included, large
/// convolutions as calls of the convolution kernel, and `fused("adamw", ...)` as calls of the
/// kernel that updates in place.
Lowering cpu_lowering(const CpuLoweringOptions& options = {});

}  // namespace kinema::kernels
