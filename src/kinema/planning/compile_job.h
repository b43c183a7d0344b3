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

/// A program to compile for devices that are not here, in a process of its own.
///
/// The job is a folder: `job.json`, `program.mlir`, then what the child made: `result.json` or
/// `error`, and `log`, what the compiler printed. A compiler that aborts, or takes too much memory,
/// ends the child only.
struct CompileJob {
  Target target;
  std::string plugin;  // path of the shared object
  std::string program;
  pjrt::CompileOptions options;
  /// The program may call the target's kernels (kernels/kernel_set.h).
  bool kernels = false;
  /// Where the compiled program goes; empty: nowhere.
  std::string save_executable;
  /// Where the optimized program goes as text; empty: nowhere.
  std::string dump;
  /// The child is ended when it takes more; 0: no limit.
  int64_t memory_limit = 0;
  /// Variables that the plugin finds with these values; others are those of this process.
  std::map<std::string, std::string> environment;
};

/// What the compiler says of a program, for one device.
struct CompileResult {
  pjrt::CompiledMemory memory;
  /// What the compiler lets a program have; 0 when it does not say.
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

/// Compiles in a child of this process, which is `executable` called with `compile-job FOLDER`: a
/// program that then calls run_compile_job. Throws an Error with the compiler's reason, and Stopped
/// once that is asked for.
CompileResult compile_in_child(const CompileJob& job, const std::filesystem::path& executable,
                               const std::stop_token& stop = {});

/// The child's side: reads the job in `folder`, compiles, writes the result, or the error for the
/// parent to show. Returns the exit status.
int run_compile_job(const std::filesystem::path& folder);

}  // namespace kinema::planning
