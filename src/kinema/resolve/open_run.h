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

/// The folder of a training run, held by this job: locked, with what its store has, and with the
/// checkpoint that the run resumes from.
class OpenRun {
 public:
  /// `named`: the configuration with models as they were named. Throws an Error where another job
  /// holds the folder.
  OpenRun(const Settings& named, const Job& job);

  /// The configuration with output paths of this machine.
  const Settings& settings() const { return settings_; }
  /// The configuration that the run's config.yml keeps: without the keys of this start alone.
  const Settings& record() const { return record_; }
  const std::filesystem::path& folder() const { return folder_; }
  /// Where its checkpoints lie, and the key that says so.
  std::filesystem::path checkpoints() const;
  std::string checkpoints_key() const;
  const Start& start() const { return start_; }
  stores::RunStores& stores() { return stores_; }
  const std::optional<checkpoints::RunLock>& lock() const { return lock_; }

  /// What there is to say where the run has made all its steps; nothing where steps are left.
  std::optional<std::vector<std::string>> nothing_left() const;

 private:
  Settings record_;
  stores::RunStores stores_;
  Settings settings_;
  std::filesystem::path folder_;
  std::optional<checkpoints::RunLock> lock_;  // of process 0
  Start start_;
};

/// Where checkpoints of the run in `run` lie.
std::filesystem::path run_checkpoints(const config::Config& config,
                                      const std::filesystem::path& run);

/// `nothing to do: 4 steps are made, and max_train_steps is 4`.
std::string nothing_to_do(int64_t made, int64_t max_steps);

}  // namespace kinema::resolve
