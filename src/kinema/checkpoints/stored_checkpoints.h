#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/checkpoints/lazy_checkpoint.h"
#include "kinema/remote/store.h"
#include "kinema/world/world.h"

namespace kinema::checkpoints {

/// The newest step whose local checkpoint is valid and was not uploaded to its store; `root` as in
/// StoredCheckpoints.
std::optional<int64_t> newest_unsent(const std::filesystem::path& root);

/// The newest step with a manifest in a store's folder of checkpoints; nothing if there is none.
std::optional<int64_t> newest_step(const remote::Store& store);

/// The checkpoints of a run in a store (gs://, s3://). They are written to a local CheckpointFolder
/// without removal of old ones, and uploaded from there.
///
/// Runs of several processes have a local folder per host, `.of-HOST` in the folder of a run of one
/// process. The next run on this machine, of either kind, uploads what an earlier one could not.
///
/// The manifest is uploaded after all other files and removed before them, so a folder of the store
/// without a manifest is incomplete and never used. Until a checkpoint is uploaded, a file
/// `STEP.unsent` is next to its local folder; other local folders are copies of checkpoints in the
/// store.
class StoredCheckpoints {
 public:
  using Say = std::function<void(const std::string&)>;

  /// `root` is the local folder; with a host's name, `.of-HOST` in it. `keep` selects the
  /// checkpoints that stay in the store. `say` receives log lines, maybe from another thread.
  StoredCheckpoints(remote::Store store, std::filesystem::path root, Keep keep, Say say,
                    const std::string& host = "");

  /// Changes which checkpoints stay in the store.
  void keep(const Keep& which);

  const remote::Store& store() const { return store_; }
  const CheckpointFolder& local() const { return local_; }

  /// Prepares the local folder for resuming: uploads what an earlier run could not, removes copies
  /// of checkpoints that are no longer in the store, and downloads the newest valid one. Corrupt
  /// and uploaded ones are reported through `say`. Throws an Error if the store cannot be read or
  /// written, or if several folders have different checkpoints that were not uploaded.
  void pull();

  /// The same by all processes of a run, with a local folder per host. The newest checkpoint that
  /// is valid in all is a LazyCheckpoint there; each process downloads the bytes that it reads,
  /// until `restored`. All throw the same Error.
  void pull_together(world::World& world);
  /// Collective: call it after the checkpoint was read; removes the local files. Returns a log line
  /// with the downloaded bytes per process; empty if nothing was downloaded.
  std::string restored(world::World& world);
  /// Lets each process write its files into a separate folder, uploads them from there, and
  /// publishes the checkpoint when all are complete; no local copy stays. If the store cannot be
  /// written, it is tried again for half an hour with log lines through `say`; then all throw.
  void write_together(int64_t step, const std::function<void(const std::filesystem::path&)>& fill,
                      world::Communicator& others);

  /// Call it before checkpoint `step` is written to local().
  void begin(int64_t step) const;
  /// Uploads checkpoints, newest first, then removes those that need not be kept, remote and local.
  /// If the store cannot be written, that is reported through `say`, and the next call tries again.
  void push();
  /// Throws an Error if a checkpoint of an earlier push() is not in the store.
  void check_sent() const;

 private:
  /// A valid checkpoint on this machine that the store lacks.
  struct Unsent {
    int64_t step = 0;
    std::filesystem::path checkpoints;  // its folder
    std::string manifest;               // a hash of the manifest
    int64_t rank = 0;                   // the process that found it
  };

  std::vector<int64_t> unsent() const;
  std::vector<Unsent> local_unsent() const;
  void check_one_history(const std::vector<Unsent>& all) const;
  void send_unsent(const std::vector<Unsent>& left);
  void send_unsent_together(world::World& world, bool looks);
  std::filesystem::path mark(int64_t step) const;
  bool is_copy(const CheckpointFolder& folder, int64_t step) const;
  void send(const CheckpointFolder& from, int64_t step);
  void receive(int64_t step, const std::filesystem::path& folder) const;
  void restore_newest(const std::vector<int64_t>& stored);
  void skip(int64_t step, const std::string& problem);
  void remove_old() const;
  void send_part(int64_t step, const std::filesystem::path& part, const io::Json& entries) const;

  remote::Store store_;
  std::filesystem::path root_;
  CheckpointFolder local_;
  Keep keep_;
  Say say_;
  std::optional<LazyCheckpoint> lazy_;
  mutable std::mutex mutex_;
  std::string problem_;  // of the last push; guarded by mutex_
};

}  // namespace kinema::checkpoints
