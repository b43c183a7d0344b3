#pragma once

#include <vector>

#include "kinema/kernels/kernel_set.h"

/// Whole programs with kernels for TPUs and GPUs, run by the CPU client: a kernel's call goes to
/// its interpreter. An interpreter's error is the program's.
namespace kinema::interpreter {

/// Takes the attribute `text`; operands and results as run_mosaic.
inline constexpr const char* kMosaicTarget = "kinema.test.mosaic";
/// Takes the attributes `text`, `function` and `grid = array<i64: x, y, z>`.
inline constexpr const char* kTritonTarget = "kinema.test.triton";

/// To be registered with the CPU plugin (KernelSet::handlers, Plugin::register_ffi_handler).
std::vector<kernels::Handler> handlers();

/// Does what `lowering` does, and replaces each call that carries a kernels::KernelText by one of
/// the targets above.
Lowering interpreting(Lowering lowering);

}  // namespace kinema::interpreter
