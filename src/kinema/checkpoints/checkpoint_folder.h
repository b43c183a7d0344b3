#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/world/communicator.h"

namespace kinema::checkpoints {

/// Why a checkpoint may not be resumed from.
struct Damage {
  std::filesystem::path folder;
  std::string reason;
};

/// What a search for the newest valid checkpoint found.
struct Found {
  std::optional<int64_t> step;  // nothing: no valid checkpoint
  std::filesystem::path folder;
  std::vector<Damage> damaged;  // newer ones that were skipped
};

/// Which checkpoints stay when a new one is in place.
struct Keep {
  int64_t newest = 0;  // so many; 0: all
  int64_t period = 0;  // > 0: also those of steps that are multiples of it
  /// Steps that were passed over: none of the newest so many. They go when as many newer ones are
  /// there.
  std::set<int64_t> damaged = {};
};

/// The folder `checkpoints/` of a run: one folder a checkpoint, named by its step, that appears
/// only when it is complete.
///
/// A checkpoint is written under another name, its files are listed with size and checksum in
/// `manifest.json`, everything is fsynced, and the folder is renamed. Without a manifest that
/// matches its files a folder is never used. A checkpoint that is written again stays until the new
/// one is there: both folders change their names at once or, where the file system cannot do that,
/// the old one is first renamed to `STEP.replaced`, which readers take while no other is there.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path folder, Keep keep = {})
      : folder_(std::move(folder)), keep_(std::move(keep)) {}

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path path(int64_t step) const { return folder_ / std::to_string(step); }

  /// Lets `fill` write files into a new folder, then publishes it as `step`. Throws an Error, with
  /// every earlier checkpoint as it was, when writing fails or a tensor is not finite.
  void write(int64_t step, const std::function<void(const std::filesystem::path&)>& fill);

  /// The same by all processes of a run at one time, each of which `fill` lets write its files into
  /// a folder of its own on the disk that they share: published when all have written. Where any
  /// could not, all throw the Error of that process.
  void write_together(int64_t step, const std::function<void(const std::filesystem::path&)>& fill,
                      world::Communicator& others);

  /// Lets `fill` write the files of a checkpoint from elsewhere, its manifest among them, then
  /// publishes it. Where the manifest does not match them, nothing changes and the reason comes
  /// back.
  std::string bring(int64_t step,
                    const std::function<void(const std::filesystem::path&)>& fill) const;

  /// The newest checkpoint whose manifest matches its files; reads every byte of it. When a
  /// training run writes or deletes checkpoints during the search, the folder is listed once more.
  Found newest() const;

  /// Steps that stand there, valid or not, oldest first.
  std::vector<int64_t> steps() const;

  void remove(int64_t step) const;

  /// Puts back the checkpoint that an interrupted writer was about to replace, and removes what
  /// else it left behind. For the run that writes the folder, before it looks for the newest.
  void clean() const;

 private:
  /// `fresh`: into an empty folder.
  void publish(int64_t step, const std::function<void(const std::filesystem::path&)>& fill,
               bool fresh = true) const;
  /// The folders of the checkpoints by their step, valid or not.
  std::map<int64_t, std::filesystem::path> folders() const;
  /// Puts a complete folder in the place of a checkpoint, of which one or the other is there at any
  /// moment.
  void replace(const std::filesystem::path& complete, int64_t step) const;
  /// Removes those that go now that `step` is there.
  void remove_old(int64_t step);

  std::filesystem::path folder_;
  Keep keep_;
};

/// Those of the steps, oldest first, that go when all of them are there.
std::vector<int64_t> steps_to_remove(const std::vector<int64_t>& steps, const Keep& keep);

/// When a run of steps `first` to `last` saves.
struct SavedSteps {
  int64_t first = 0;
  int64_t last = 0;
  int64_t every = -1;  // steps; -1: not on the way
  bool at_end = true;
};

/// How many checkpoints more than now lie on the disk at most while a run goes on, the one that is
/// being written among them; `steps`, oldest first, are there. Stops counting at `enough`.
int64_t most_new_checkpoints(std::vector<int64_t> steps, const SavedSteps& run, Keep keep,
                             int64_t enough);

/// The step that a checkpoint's name says, if it is one.
std::optional<int64_t> step_of(const std::string& name);

/// Writes `manifest.json` for every file below the folder. Throws an Error that names the tensor
/// when a safetensors file holds a value that is not finite.
void write_manifest(const std::filesystem::path& folder);

/// The entries of a manifest of the files below a folder. Throws as write_manifest.
io::Json manifest_entries(const std::filesystem::path& folder);

/// The text of a manifest for such entries of several processes (dumped). Throws an Error where two
/// wrote the same file.
std::string joined_manifest(const std::vector<std::string>& entries);

/// The files that the text of a manifest lists, all of them inside the folder. Throws an Error for
/// text that is no manifest.
std::vector<std::string> manifest_files(const std::string& text, const std::string& source);

/// Whether manifest and files of a checkpoint are there, by their names alone: not of one that is
/// being removed.
bool is_there(const std::filesystem::path& folder);

/// Empty when the manifest is there and every file has its size and checksum; else the reason.
std::string manifest_problem(const std::filesystem::path& folder);

/// The parts of a checkpoint with a checksum each, from its manifest: `transformer 1f3e5a7790bc,
/// optimizer/mu 77..., train_state ...`. Equal texts mean equal bytes. Throws an Error without a
/// manifest.
std::string describe_parts(const std::filesystem::path& folder);

}  // namespace kinema::checkpoints
