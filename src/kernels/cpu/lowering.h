#pragma once

#include "graph/emit.h"
#include "pjrt/plugin.h"

namespace kinema::kernels {

/// Name of the product kernel in programs.
inline constexpr const char* kDotTarget = "kinema.dot";

/// The XLA_FFI_Handler of kDotTarget.
void* dot_handler();

/// What the CPU lowering replaces.
struct CpuLoweringOptions {
  bool f32 = true;
  bool bf16 = true;
  /// Products below this many floating-point operations stay with the compiler.
  double min_flops = 4e6;
};

/// Makes the kernels known to a CPU plugin; may be called more than once.
void register_cpu_kernels(const pjrt::Plugin& plugin);

/// Writes large dots as calls of the product kernel, transposes on either side included.
Lowering cpu_lowering(const CpuLoweringOptions& options = {});

}  // namespace kinema::kernels
