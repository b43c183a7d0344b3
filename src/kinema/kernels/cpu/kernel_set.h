#pragma once

#include "kinema/kernels/kernel_set.h"

namespace kinema::kernels {

/// A CPU's kernels, for one device: none stand inside manual regions yet. Over a mesh and without
/// kernels the flags alone, which hold the compiler to a limited instruction set.
KernelSet cpu_kernel_set(const Target& target, const KernelOptions& options);

/// What a program for CPUs may call.
std::vector<Handler> cpu_handlers();

}  // namespace kinema::kernels
