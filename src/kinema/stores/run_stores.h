#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/checkpoints/stored_checkpoints.h"
#include "kinema/job/job.h"
#include "kinema/remote/mirror.h"

namespace kinema::stores {

/// Where a training run writes; each path may be one of a store, and empty where the run does not
/// write that.
struct RunOutputs {
  std::string output_dir;
  std::string run_name;
  std::string checkpoint_dir;  // empty: in the run folder
  std::string metrics_file;
  std::string timings_file;
  std::string tensorboard_dir;
  std::string metrics_dir;
  std::string encoded_clips;  // latents and text states that are kept between runs
  std::string config_copy;    // folder of a second copy of the configuration
  checkpoints::Keep keep;     // which checkpoints a store keeps
};

/// The output of a training run, of which any part may lie in a store.
class RunStores {
 public:
  RunStores(const RunOutputs& named, Job job);
  RunStores(const RunStores&) = delete;
  RunStores& operator=(const RunStores&) = delete;
  /// Where the run ended without finish(), tries to write what is left.
  ~RunStores();

  /// The same with paths of this machine.
  const RunOutputs& local() const { return local_; }
  /// The run folder as the user named it.
  const std::string& run() const { return run_; }
  /// Where checkpoints go beside this machine; null: nowhere.
  checkpoints::StoredCheckpoints* checkpoints() { return checkpoints_.get(); }

  /// Brings what the run goes on from, writes the configuration to base_output_directory, and
  /// begins to mirror. To be called with the run folder held.
  void begin(const std::string& config_text);
  /// The same of several processes' checkpoints, by all of them.
  void bring_together();
  /// What it was brought for has read it; called by all of several processes.
  void restored();
  /// Something was written that may be seen.
  void hint();
  /// Writes what is left. Throws an Error when it cannot.
  void finish();

 private:
  struct Output {
    std::string path;
    std::string local;
    bool bring = false;  // all that is there
    std::vector<std::string> except = {};
  };

  Job job_;
  RunOutputs local_;
  std::string run_;
  std::vector<Output> outputs_;
  std::vector<std::unique_ptr<remote::Mirror>> mirrors_;
  std::unique_ptr<checkpoints::StoredCheckpoints> checkpoints_;
};

}  // namespace kinema::stores
