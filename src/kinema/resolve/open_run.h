#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kinema/checkpoints/run_lock.h"
#include "kinema/job/job.h"
#include "kinema/resolve/resume.h"
#include "kinema/resolve/settings.h"
#include "kinema/stores/run_stores.h"

namespace kinema::resolve {

/// A locked run folder of this job, with the files of its store and the checkpoint from which the
/// run resumes.
class OpenRun {
 public:
  /// `named`: the configuration with models as they were named. Throws an Error if another job has
  /// locked the folder.
  OpenRun(const Settings& named, const Job& job);

  /// The configuration with local output paths.
  const Settings& settings() const { return settings_; }
  /// The configuration of the run's config.yml: without keys that apply only to this start.
  const Settings& record() const { return record_; }
  const std::filesystem::path& folder() const { return folder_; }
  /// The folder of the run's checkpoints, and the key that sets it.
  std::filesystem::path checkpoints() const;
  std::string checkpoints_key() const;
  const Start& start() const { return start_; }
  stores::RunStores& stores() { return stores_; }
  const std::optional<checkpoints::RunLock>& lock() const { return lock_; }

  /// Log lines if the run has no step left; nothing if there are steps left.
  std::optional<std::vector<std::string>> nothing_left() const;

 private:
  Settings record_;
  stores::RunStores stores_;
  Settings settings_;
  std::filesystem::path folder_;
  std::optional<checkpoints::RunLock> lock_;  // held by process 0
  Start start_;
};

/// The checkpoint folder of the run in `run`.
std::filesystem::path run_checkpoints(const config::Config& config,
                                      const std::filesystem::path& run);

/// `nothing to do: 4 steps are made, and max_train_steps is 4`.
std::string nothing_to_do(int64_t made, int64_t max_steps);

}  // namespace kinema::resolve
