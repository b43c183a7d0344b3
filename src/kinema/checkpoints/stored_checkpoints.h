#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/checkpoints/parted_checkpoint.h"
#include "kinema/remote/store.h"
#include "kinema/world/world.h"

namespace kinema::checkpoints {

/// The newest step whose checkpoint is here, whole, and was not sent to its store; `root` as of
/// StoredCheckpoints.
std::optional<int64_t> newest_unsent(const std::filesystem::path& root);

/// The newest step with a manifest in a folder of checkpoints, if there is one.
std::optional<int64_t> newest_step(const remote::Store& store);

/// The checkpoints of a run in a store (gs://, s3://). They are written to a local folder, which is
/// a CheckpointFolder that keeps all, and sent from there.
///
/// Runs of several processes have a local folder for each host, `.of-HOST` in that of a run of one
/// process. What a run of either kind could not send, the next one of any kind on this machine
/// sends before it begins.
///
/// The manifest is sent after all other files and removed before them, so that a folder of the
/// store without one is half a checkpoint and never used. Until a checkpoint is sent, a file
/// `STEP.unsent` lies beside it here; the other local folders are copies of what the store has.
class StoredCheckpoints {
 public:
  using Say = std::function<void(const std::string&)>;

  /// `root` is the local folder; with a host's name, `.of-HOST` in it is. `keep` says which stay in
  /// the store. `say` may be called from another thread.
  StoredCheckpoints(remote::Store store, std::filesystem::path root, Keep keep, Say say,
                    const std::string& host = "");

  /// Says anew which stay in the store.
  void keep(const Keep& which);

  const remote::Store& store() const { return store_; }
  const CheckpointFolder& local() const { return local_; }

  /// Makes the local folder what a run goes on from: sends what an earlier run could not, removes
  /// copies of what is no longer in the store, and brings the newest valid checkpoint. Damaged
  /// ones, and those that are sent, are named through `say`. Throws an Error when the store cannot
  /// be read or written, or several folders hold different checkpoints that were not sent.
  void pull();

  /// The same by all processes of a run, each of whose hosts has a local folder: there the newest
  /// checkpoint that is good for all is a PartedCheckpoint, of which each process gets what it
  /// reads until `restored`. All throw the same Error.
  void pull_together(world::World& world);
  /// To be called by all when the checkpoint was read: nothing of it stays here. What came of it,
  /// and to whom, as a line; empty where nothing did.
  std::string restored(world::World& world);
  /// Lets each process write its files into a folder of its own, sends them from there, and
  /// publishes the checkpoint when all are there: no copy stays here. A store that cannot be
  /// written is tried again for half an hour, which is told through `say`; then all throw.
  void write_together(int64_t step, const std::function<void(const std::filesystem::path&)>& fill,
                      world::Communicator& others);

  /// To be called before checkpoint `step` is written to local().
  void begin(int64_t step) const;
  /// Sends what is not sent yet, newest first, then removes what need not be kept, there and here.
  /// A store that cannot be written is told through `say`: the next call tries again.
  void push();
  /// Throws an Error when a checkpoint that push() was called for is not in the store.
  void check_sent() const;

 private:
  /// A whole checkpoint of this machine that the store lacks.
  struct Unsent {
    int64_t step = 0;
    std::filesystem::path checkpoints;  // the folder that it lies in
    std::string manifest;               // a hash of it
    int64_t rank = 0;                   // the process that found it
  };

  std::vector<int64_t> unsent() const;
  std::vector<Unsent> unsent_here() const;
  void check_one_history(const std::vector<Unsent>& all) const;
  void send_left(const std::vector<Unsent>& left);
  void send_left_together(world::World& world, bool looks);
  std::filesystem::path mark(int64_t step) const;
  bool is_copy(const CheckpointFolder& folder, int64_t step) const;
  void send(const CheckpointFolder& from, int64_t step);
  void receive(int64_t step, const std::filesystem::path& folder) const;
  void bring_newest(const std::vector<int64_t>& stored);
  void skip(int64_t step, const std::string& problem);
  void remove_old() const;
  void send_part(int64_t step, const std::filesystem::path& part, const io::Json& entries) const;

  remote::Store store_;
  std::filesystem::path root_;
  CheckpointFolder local_;
  Keep keep_;
  Say say_;
  std::optional<PartedCheckpoint> parted_;
  mutable std::mutex mutex_;
  std::string problem_;  // of the last push; guarded by mutex_
};

}  // namespace kinema::checkpoints
