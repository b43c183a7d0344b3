#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <stop_token>
#include <string>

#include "kinema/pjrt/compile_options.h"
#include "kinema/pjrt/executable.h"
#include "kinema/planning/expected.h"
#include "kinema/planning/overlap.h"
#include "kinema/planning/target.h"
#include "kinema/planning/traffic.h"

namespace kinema::planning {

/// A program to compile for devices that are not installed, in a child process.
///
/// The job is a folder: `job.json`, `program.mlir`, then the child's output: `result.json` or
/// `error`, and `log`, the compiler's output. A compiler that aborts, or needs too much memory,
/// ends the child only.
struct CompileJob {
  Target target;
  std::string plugin;  // path of the shared object
  std::string program;
  pjrt::CompileOptions options;
  /// The program may call the target's kernels (kernels/kernel_set.h).
  bool kernels = false;
  /// Path for the compiled program; empty: none.
  std::string save_executable;
  /// Path for the optimized program as text; empty: none.
  std::string dump;
  /// Memory limit of the child in bytes; 0: none.
  int64_t memory_limit = 0;
  /// Environment variables of the child, in addition to those of this process.
  std::map<std::string, std::string> environment;
};

/// The compiler's figures for a program, per device.
struct CompileResult {
  pjrt::CompiledMemory memory;
  /// The compiler's limit for a program; 0 if unknown.
  int64_t memory_limit = 0;
  int64_t devices = 0;
  Traffic traffic;
  ExpectedTime expected;
  Overlap overlap;
  std::string platform_version;
  std::string fingerprint;
  double compile_seconds = 0;
  int64_t peak_rss = 0;  // of the compiling process
};

/// Compiles in a child process, which is `executable` called with `compile-job FOLDER`: a program
/// that then calls run_compile_job. Throws an Error with the compiler's reason, and Stopped after a
/// stop request.
CompileResult compile_in_child(const CompileJob& job, const std::filesystem::path& executable,
                               const std::stop_token& stop = {});

/// The child's side: reads the job in `folder`, compiles, and writes the result, or the error that
/// the parent throws. Returns the exit status.
int run_compile_job(const std::filesystem::path& folder);

}  // namespace kinema::planning
