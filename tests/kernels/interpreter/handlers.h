#pragma once

#include <vector>

#include "kinema/kernels/kernel_set.h"

/// Runs whole programs with TPU or GPU kernels on the CPU client: a kernel's call goes to its
/// interpreter. An interpreter's error becomes the program's.
namespace kinema::interpreter {

/// Has the attribute `text`; operands and results as in run_mosaic.
inline constexpr const char* kMosaicTarget = "kinema.test.mosaic";
/// Has the attributes `text`, `function` and `grid = array<i64: x, y, z>`.
inline constexpr const char* kTritonTarget = "kinema.test.triton";

/// For registration with the CPU plugin (KernelSet::handlers, Plugin::register_ffi_handler).
std::vector<kernels::Handler> handlers();

/// Lowers as `lowering`, and replaces each call that carries a kernels::KernelText by one of the
/// targets above.
Lowering interpreting(Lowering lowering);

}  // namespace kinema::interpreter
