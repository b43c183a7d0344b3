#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kinema/job/job.h"
#include "kinema/planning/report.h"
#include "kinema/planning/sweep.h"
#include "kinema/planning/target.h"
#include "kinema/resolve/settings.h"

/// Whether a configuration fits devices that are not here, and how fast it could be: `kinema plan`.
namespace kinema::jobs {

/// Which program of a run is planned.
enum class PlanMode : uint8_t { TRAIN, GENERATE };

struct PlanOptions {
  planning::Target target;
  PlanMode mode = PlanMode::TRAIN;
  std::filesystem::path save_executable;       // empty: the program is not kept
  int64_t compile_memory = int64_t{16} << 30;  // bytes that the compiling process may take
  std::vector<std::string> flags;              // `NAME=VALUE` for the compiler
  /// TPU: tiles of attention kernels are compared by their schedules first, and the best taken, as
  /// with enable_tile_search.
  bool tiles = false;
  /// Where the step does not fit, changes that take less are compiled, three at most, until one
  /// does.
  bool remedies = true;
  JobOptions job;  // its `program` is needed: it compiles
};

/// Compiles the step that train or generate would run. A step that does not fit is told in the
/// report, with the largest values and what fits in its place (Report::fits, planning::verdict).
/// Throws an Error where a run would.
planning::Report plan(const resolve::Settings& config, const PlanOptions& options,
                      const Observer& observer);

/// What a sweep tries beside what the configuration says; empty ones are filled in.
struct SweepChoices {
  std::vector<std::string> meshes;  // `context:2,tensor:4`
  std::vector<std::string> remat;
  std::vector<int64_t> batches;
};

/// Tries meshes, remat policies and batch sizes; those that fit first, best first. `done` is told
/// of each, and of how many there are.
std::vector<planning::Outcome> sweep(
    const resolve::Settings& config, const PlanOptions& options, const SweepChoices& choices,
    const Observer& observer,
    const std::function<void(const planning::Outcome&, int64_t done, int64_t total)>& done);

}  // namespace kinema::jobs
