#pragma once

#include <filesystem>
#include <stop_token>
#include <string>

#include "kinema/kernels/tpu/tile_candidates.h"
#include "kinema/planning/target.h"

namespace kinema::planning {

/// The compiler of the inspected kernels.
struct KernelCompiler {
  Target target;
  std::string plugin;             // path of the shared object
  std::filesystem::path program;  // `program compile-job FOLDER` (compile_job.h)
  std::stop_token stop;
};

/// The cycles of an attention kernel on one device by its compiler's schedule, over the whole grid.
/// A lower bound: it does not contain waits for memory and clock throttling.
struct KernelCycles {
  double cycles = 0;           // of the whole call
  double compile_seconds = 0;  // of one compilation of the kernel
};

/// TPU only. Compiles the kernel alone, twice with few blocks, and extrapolates, because cycles are
/// linear in the number of blocks. Throws an Error if the compiler rejects the kernel, or does not
/// report cycles.
KernelCycles kernel_cycles(const kernels::TileCandidate& trial, const KernelCompiler& compiler);

}  // namespace kinema::planning
