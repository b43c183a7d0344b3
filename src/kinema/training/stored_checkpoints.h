#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kinema/remote/store.h"
#include "kinema/training/checkpoint_folder.h"
#include "kinema/training/parted_checkpoint.h"
#include "kinema/world/world.h"

namespace kinema::training {

/// The newest step with a manifest in a folder of checkpoints, if there is one.
std::optional<int64_t> newest_step(const remote::Store& store);

/// The checkpoints of a run in a store (gs://, s3://). They are written to a local folder, which is
/// a CheckpointFolder that keeps all, and sent from there.
///
/// The manifest is sent after all other files and removed before them, so that a folder of the
/// store without one is half a checkpoint and never used. Until a checkpoint is sent, a file
/// `STEP.unsent` lies beside it here; the other local folders are copies of what the store has.
class StoredCheckpoints {
 public:
  using Say = std::function<void(const std::string&)>;

  /// `keep` says which stay in the store. `say` may be called from another thread.
  StoredCheckpoints(remote::Store store, std::filesystem::path local, Keep keep, Say say);

  /// Says anew which stay in the store.
  void keep(const Keep& which);

  const remote::Store& store() const { return store_; }
  const CheckpointFolder& local() const { return local_; }

  /// Makes the local folder what a run goes on from: sends what an earlier run could not, removes
  /// copies of what is no longer in the store, and brings the newest valid checkpoint. Damaged ones
  /// are named through `say`. Throws an Error when the store cannot be read.
  void pull();

  /// The same by all processes of a run, each of whose hosts has a local folder: there the newest
  /// checkpoint that is good for all is a PartedCheckpoint, of which each process gets what it
  /// reads until `restored`. Nothing is sent.
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
  std::vector<int64_t> unsent() const;
  std::filesystem::path mark(int64_t step) const;
  bool is_copy(int64_t step) const;
  void send(int64_t step);
  void receive(int64_t step, const std::filesystem::path& folder) const;
  void bring_newest(const std::vector<int64_t>& stored);
  void skip(int64_t step, const std::string& problem);
  void remove_old() const;
  void send_part(int64_t step, const std::filesystem::path& part, const io::Json& entries) const;

  remote::Store store_;
  CheckpointFolder local_;
  Keep keep_;
  Say say_;
  std::optional<PartedCheckpoint> parted_;
  mutable std::mutex mutex_;
  std::string problem_;  // of the last push; guarded by mutex_
};

}  // namespace kinema::training
