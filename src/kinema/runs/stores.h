#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kinema/checkpoints/stored_checkpoints.h"
#include "kinema/config/config.h"
#include "kinema/remote/mirror.h"
#include "kinema/runs/job.h"

/// Paths of stores (gs://, s3://) in a command's configuration: what is read is brought to this
/// machine first (but for large data sets: data_sets.h); what is written lies here first and is
/// mirrored.
namespace kinema::runs {

/// Throws an Error that names a key whose path must be one of this machine.
void check_store_keys(const config::Loaded& loaded);

/// Where in the cache folder copies and what is on its way to stores lie.
std::filesystem::path stores_folder();

/// The path on this machine of what `path` names: itself, or the copy of what a store has, which is
/// brought where it is missing or has changed.
std::string local_copy(const std::string& path, const Job& job);

/// Of a run folder in a store, the copy of what `kinema watch` draws; another path as it is.
std::string watched_copy(const std::string& run);

/// A folder to write to: `path` itself, or a folder of this machine for one of a store.
std::string staging_of(const std::string& path);

/// Files as they are written: the folder `local`, and everything in it, is mirrored to `path` of a
/// store. Null for a local path.
std::unique_ptr<remote::Mirror> mirror_of(const std::string& path, const std::string& local,
                                          const Job& job, std::vector<std::string> except = {});

/// A folder of shards that `kinema prepare` writes, with the files that it keeps beside it.
class RecordStore {
 public:
  /// Of a folder in a store, downloads what the store has.
  RecordStore(const std::string& folder, const Job& job);

  /// The folder as the user named it.
  const std::string& path() const { return path_; }
  /// The folder of this machine to write to.
  const std::string& local() const { return local_; }
  void hint();
  /// Writes what is left. Throws an Error when it cannot.
  void finish();

 private:
  std::string path_;
  std::string local_;
  std::unique_ptr<remote::Mirror> mirror_;
};

/// Videos that are made: written to a folder of this machine, then sent to video_folder's store.
class VideoStore {
 public:
  VideoStore(const std::string& folder, Job job);

  /// The names that are taken in the store; none for a folder of this machine, which can be asked.
  /// The list of what is there, metadata.jsonl, is brought here, so that it can grow; to process 0,
  /// which writes it.
  std::set<std::string> names() const;
  /// Sends all files below the folder, then removes them here. Throws an Error when it cannot.
  void finish();
  bool is_remote() const { return !local_.empty(); }
  /// The folder of this machine to write to; empty where none was given.
  const std::string& local() const { return local_.empty() ? path_ : local_; }
  /// A file's path as the user would name it.
  std::string path(const std::filesystem::path& file) const;

 private:
  std::string path_;
  Job job_;
  std::string local_;  // empty: `path_` is one of this machine
};

/// The output of a training run, of which any part may lie in a store.
class RunStores {
 public:
  RunStores(const config::Config& config, Job job);
  RunStores(const RunStores&) = delete;
  RunStores& operator=(const RunStores&) = delete;
  /// Where the run ended without finish(), tries to write what is left.
  ~RunStores();

  /// The configuration with paths of this machine for all keys that name output.
  config::Loaded with_local_output(config::Loaded loaded) const;
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
  config::RunConfig local_;  // of which the paths of output
  std::string local_encoded_;
  std::string run_;
  std::string config_copy_;  // base_output_directory/run_name; empty: none
  std::vector<Output> outputs_;
  std::vector<std::unique_ptr<remote::Mirror>> mirrors_;
  std::unique_ptr<checkpoints::StoredCheckpoints> checkpoints_;
};

/// Of a run whose output_dir or checkpoint_dir is in a store: downloads the checkpoint that is
/// asked for and returns the configuration that names it; video_folder becomes the run's own where
/// none is given.
config::Loaded with_local_checkpoint(config::Loaded loaded, const Job& job);

}  // namespace kinema::runs
