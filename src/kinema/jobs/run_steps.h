#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "kinema/checkpoints/run_lock.h"
#include "kinema/core/stopwatch.h"
#include "kinema/jobs/run_records.h"
#include "kinema/jobs/train.h"
#include "kinema/jobs/training.h"
#include "kinema/jobs/watched_videos.h"
#include "kinema/pjrt/client.h"
#include "kinema/training/profile_window.h"

/// Runs the steps of a training run.
namespace kinema::jobs {

/// Checks periodically whether a run's folder still exists: a user or another program may delete
/// it.
class FolderWatch {
 public:
  /// `lock`: empty in all processes but the first.
  explicit FolderWatch(const std::optional<checkpoints::RunLock>& lock) : lock_(lock) {}

  bool is_gone();
  /// Throws an Error that names the folder if it does not exist any more.
  void check(const std::filesystem::path& run, int64_t steps,
             const std::filesystem::path& checkpoints) const;

 private:
  const std::optional<checkpoints::RunLock>& lock_;
  Stopwatch since_;
  bool gone_ = false;
};

/// Receives the results of steps.
struct StepListeners {
  const TrainObserver& observer;
  const Job& job;
  RunRecords& records;
  WatchedVideos& videos;
};

/// Runs the run's remaining steps, with checkpoints and evaluations between them. `last` is set to
/// the last step.
training::LoopEnd run_steps(Training& training, const resolve::LoopSettings& settings,
                            const StepListeners& listeners, const pjrt::Client& client,
                            FolderWatch& folder, std::optional<StepRecord>& last);

}  // namespace kinema::jobs
