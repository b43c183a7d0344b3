#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/checkpoints/stored_checkpoints.h"
#include "kinema/job/job.h"
#include "kinema/remote/mirror.h"

namespace kinema::stores {

/// The output paths of a training run, local or in a store; empty if the run does not write them.
struct RunOutputs {
  std::string output_dir;
  std::string run_name;
  std::string checkpoint_dir;  // empty: in the run folder
  std::string metrics_file;
  std::string timings_file;
  std::string tensorboard_dir;
  std::string metrics_dir;
  std::string encoded_clips;  // cached latents and text states
  std::string config_copy;    // folder of a second copy of the configuration
  checkpoints::Keep keep;     // the checkpoints that a store keeps
};

/// The output of a training run, some or all of it in stores.
class RunStores {
 public:
  RunStores(const RunOutputs& named, Job job);
  RunStores(const RunStores&) = delete;
  RunStores& operator=(const RunStores&) = delete;
  /// Without finish(), tries to upload the rest.
  ~RunStores();

  /// The same with local paths.
  const RunOutputs& local() const { return local_; }
  /// The run folder as in the configuration.
  const std::string& run() const { return run_; }
  /// The store of checkpoints; null: they are only on this machine.
  checkpoints::StoredCheckpoints* checkpoints() { return checkpoints_.get(); }

  /// Downloads the files from which the run resumes, writes the configuration to
  /// base_output_directory, and starts mirroring. The run folder must be locked.
  void begin(const std::string& config_text);
  /// Downloads the checkpoint that several processes have saved. Collective.
  void bring_together();
  /// Frees the downloaded checkpoint after it was read. Collective.
  void restored();
  /// Uploads new files soon.
  void hint();
  /// Uploads the rest. Throws an Error if that fails.
  void finish();

 private:
  struct Output {
    std::string path;
    std::string local;
    bool bring = false;  // downloads all existing files
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
