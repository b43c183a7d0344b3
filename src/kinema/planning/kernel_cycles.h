#pragma once

#include <filesystem>
#include <stop_token>
#include <string>

#include "kinema/kernels/tpu/tile_trials.h"
#include "kinema/planning/target.h"

namespace kinema::planning {

/// Who compiles what is looked at.
struct KernelCompiler {
  Target target;
  std::string plugin;             // path of the shared object
  std::filesystem::path program;  // `program compile-job FOLDER` (compile_job.h)
  std::stop_token stop;
};

/// What one device spends on an attention kernel by the schedule that its compiler makes: a walk
/// through the instructions over the whole grid. A lower bound: waiting for memory and clocks that
/// are throttled are not in it.
struct KernelCycles {
  double cycles = 0;           // of the whole call
  double compile_seconds = 0;  // of one compilation of the kernel
};

/// TPU only. Compiles the kernel by itself, twice with few blocks, and extrapolates: cycles grow by
/// the same number with each block. Throws an Error where the compiler takes the kernel not, or
/// says no cycles.
KernelCycles kernel_cycles(const kernels::TileTrial& trial, const KernelCompiler& compiler);

}  // namespace kinema::planning
