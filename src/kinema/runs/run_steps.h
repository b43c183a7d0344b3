#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "kinema/checkpoints/run_lock.h"
#include "kinema/core/stopwatch.h"
#include "kinema/pjrt/client.h"
#include "kinema/runs/run_records.h"
#include "kinema/runs/train.h"
#include "kinema/runs/training.h"
#include "kinema/runs/watched_videos.h"
#include "kinema/training/profile_window.h"

/// The steps of a training run that is ready for its first one.
namespace kinema::runs {

/// Checks now and then whether a run's folder still exists: a user, or a program that tidies up,
/// may delete it.
class FolderWatch {
 public:
  /// `lock`: empty in all processes but the first.
  explicit FolderWatch(const std::optional<checkpoints::RunLock>& lock) : lock_(lock) {}

  bool is_gone();
  /// Throws an Error that names the folder when it was found to be gone.
  void check(const std::filesystem::path& run, int64_t steps,
             const std::filesystem::path& checkpoints) const;

 private:
  const std::optional<checkpoints::RunLock>& lock_;
  Stopwatch since_;
  bool gone_ = false;
};

/// What goes on beside the steps.
struct LoopSettings {
  std::optional<training::ProfileOptions> profile;
  std::filesystem::path profile_folder;
  bool transfer_guard = false;  // transfers that nothing asked for are errors
  /// The run stops after this many evaluations without a lower loss; nothing: it never does.
  std::optional<int64_t> evaluations_without_gain;

  /// Whether evaluations so far ask the run to stop.
  bool is_over(const training::Gain& gain) const {
    return evaluations_without_gain && gain.is_over(*evaluations_without_gain);
  }
};

/// Who hears of the steps.
struct StepListeners {
  const TrainObserver& observer;
  const Job& job;
  RunRecords& records;
  WatchedVideos& videos;
};

/// Makes the run's remaining steps, saves and evaluates between them. `last`: the last step made.
training::LoopEnd run_steps(Training& training, const LoopSettings& settings,
                            const StepListeners& listeners, const pjrt::Client& client,
                            FolderWatch& folder, std::optional<StepRecord>& last);

}  // namespace kinema::runs
