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

/// Predicts whether a configuration fits devices that you do not have, and its speed: `kinema
/// plan`.
namespace kinema::plans {

/// The planned program of a run.
enum class PlanMode : uint8_t { TRAIN, GENERATE };

struct PlanOptions {
  planning::Target target;
  PlanMode mode = PlanMode::TRAIN;
  std::filesystem::path save_executable;       // empty: the program is not saved
  int64_t compile_memory = int64_t{16} << 30;  // bytes of memory for the compiling process
  std::vector<std::string> flags;              // `NAME=VALUE` for the compiler
  /// TPU: autotunes the attention kernels' tiles by their schedules first and uses the best, as
  /// with enable_tile_search.
  bool tiles = false;
  /// If the step does not fit, compiles changes that need less memory until one fits; at most
  /// three.
  bool remedies = true;
  JobOptions job;  // its `program` is required, to compile
};

/// Compiles the step that train or generate would run. If it does not fit, the report has the
/// largest values and a change that fits (Report::fits, planning::verdict). Throws the errors that
/// a run would throw.
planning::Report plan(const resolve::Settings& config, const PlanOptions& options,
                      const Observer& observer);

/// The settings that a sweep tries in addition to the configuration's; empty lists have defaults.
struct SweepChoices {
  std::vector<std::string> meshes;  // `context:2,tensor:4`
  std::vector<std::string> remat;
  std::vector<int64_t> batches;
};

/// Compiles with all meshes, remat policies and batch sizes; returns those that fit first, the
/// fastest at the start. `done` is called after each, with their number.
std::vector<planning::Outcome> sweep(
    const resolve::Settings& config, const PlanOptions& options, const SweepChoices& choices,
    const Observer& observer,
    const std::function<void(const planning::Outcome&, int64_t done, int64_t total)>& done);

}  // namespace kinema::plans
