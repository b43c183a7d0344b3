#pragma once

#include "kinema/kernels/kernel_set.h"

namespace kinema::kernels {

/// A CPU's kernels, for one device: they do not support manual regions yet. Over a mesh or without
/// kernels only the flags, which limit the compiler's instruction set.
KernelSet cpu_kernel_set(const Target& target, const KernelOptions& options);

/// The kernels that a CPU program may call.
std::vector<Handler> cpu_handlers();

}  // namespace kinema::kernels
