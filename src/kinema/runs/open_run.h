#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kinema/checkpoints/run_lock.h"
#include "kinema/config/config.h"
#include "kinema/runs/job.h"
#include "kinema/runs/resume.h"
#include "kinema/runs/stores.h"

namespace kinema::runs {

/// The folder of a training run, held by this job: locked, with what its store has, and with the
/// checkpoint that the run resumes from.
class OpenRun {
 public:
  /// `named`: the configuration with models as they were named. Throws an Error where another job
  /// holds the folder.
  OpenRun(const config::Loaded& named, const Job& job);

  /// The configuration with output paths of this machine.
  const config::Loaded& loaded() const { return loaded_; }
  /// The configuration that the run's config.yml keeps: without the keys of this start alone.
  const config::Loaded& record() const { return record_; }
  const std::filesystem::path& folder() const { return folder_; }
  const Start& start() const { return start_; }
  RunStores& stores() { return stores_; }
  const std::optional<checkpoints::RunLock>& lock() const { return lock_; }

  /// What there is to say where the run has made all its steps; nothing where steps are left.
  std::optional<std::vector<std::string>> nothing_left() const;

 private:
  config::Loaded record_;
  RunStores stores_;
  config::Loaded loaded_;
  std::filesystem::path folder_;
  std::optional<checkpoints::RunLock> lock_;  // of process 0
  Start start_;
};

/// `nothing to do: 4 steps are made, and max_train_steps is 4`.
std::string nothing_to_do(int64_t made, int64_t max_steps);

}  // namespace kinema::runs
