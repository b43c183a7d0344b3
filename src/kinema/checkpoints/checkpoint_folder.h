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

/// The reason that a checkpoint cannot be resumed from.
struct CorruptCheckpoint {
  std::filesystem::path folder;
  std::string reason;
};

/// The result of a search for the newest valid checkpoint.
struct Found {
  std::optional<int64_t> step;  // nothing: no valid checkpoint
  std::filesystem::path folder;
  std::vector<CorruptCheckpoint> corrupt;  // newer ones that were skipped
};

/// For the second line of an error: `FOLDER: REASON; FOLDER: REASON; and 3 more`.
std::string damage_text(const std::vector<CorruptCheckpoint>& damaged);

/// The checkpoints that are kept when a new one is complete.
struct Keep {
  int64_t newest = 0;  // the number of newest checkpoints; 0: all
  int64_t period = 0;  // > 0: also steps that are multiples of this
  /// Corrupt steps, which do not count as newest. They are removed when `newest` newer ones exist.
  std::set<int64_t> corrupt = {};
};

/// The folder `checkpoints/` of a run: one folder per checkpoint, named by its step, that appears
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

  /// Calls `fill` to write files into a new folder, then publishes it as `step`. Throws an Error,
  /// with all earlier checkpoints unchanged, if writing fails or a tensor is not finite.
  void write(int64_t step, const std::function<void(const std::filesystem::path&)>& fill);

  /// The same by all processes of a run together. In each process, `fill` writes into a separate
  /// folder on the shared disk; the checkpoint is published when all have written. If one fails,
  /// all throw its Error.
  void write_together(int64_t step, const std::function<void(const std::filesystem::path&)>& fill,
                      world::Communicator& others);

  /// Calls `fill` to write the files of a checkpoint from elsewhere, including its manifest, then
  /// publishes it. If the manifest does not match the files, nothing changes and the reason is
  /// returned.
  std::string bring(int64_t step,
                    const std::function<void(const std::filesystem::path&)>& fill) const;

  /// The newest checkpoint whose manifest matches its files; reads all of its bytes. If a training
  /// run writes or deletes checkpoints during the search, the folder is listed again.
  Found newest() const;

  /// Steps in the folder, valid or not, oldest first.
  std::vector<int64_t> steps() const;

  void remove(int64_t step) const;

  /// Restores the checkpoint that an interrupted writer was replacing, and removes its other files.
  /// For the run that writes the folder, before it searches for the newest.
  void clean() const;

 private:
  /// `fresh`: into an empty folder.
  void publish(int64_t step, const std::function<void(const std::filesystem::path&)>& fill,
               bool fresh = true) const;
  /// The folders of the checkpoints by their step, valid or not.
  std::map<int64_t, std::filesystem::path> folders() const;
  /// Replaces a checkpoint by a complete folder; one of the two exists at any time.
  void replace(const std::filesystem::path& complete, int64_t step) const;
  /// Removes old checkpoints after `step` was published.
  void remove_old(int64_t step);

  std::filesystem::path folder_;
  Keep keep_;
};

/// The steps to remove, of `steps` (oldest first).
std::vector<int64_t> steps_to_remove(const std::vector<int64_t>& steps, const Keep& keep);

/// The steps at which a run from `first` to `last` saves.
struct SavedSteps {
  int64_t first = 0;
  int64_t last = 0;
  int64_t every = -1;  // -1: only at the end
  bool at_end = true;
};

/// The maximum number of additional checkpoints on disk during a run, including the one that is
/// being written; `steps`, oldest first, exist already. Stops counting at `enough`.
int64_t max_new_checkpoints(std::vector<int64_t> steps, const SavedSteps& run, Keep keep,
                            int64_t enough);

/// The step in a checkpoint's name; nothing for other names.
std::optional<int64_t> parse_step(const std::string& name);

/// Writes `manifest.json` for every file below the folder. Throws an Error with the tensor's name
/// if a safetensors file has a non-finite value.
void write_manifest(const std::filesystem::path& folder);

/// The manifest's entries for the files below a folder. Throws as write_manifest.
io::Json manifest_entries(const std::filesystem::path& folder);

/// The text of a manifest from the (dumped) entries of several processes. Throws an Error if two
/// wrote the same file.
std::string joined_manifest(const std::vector<std::string>& entries);

/// The files in a manifest's text, all inside the folder. Throws an Error if the text is not a
/// manifest.
std::vector<std::string> manifest_files(const std::string& text, const std::string& source);

/// True if the manifest and its files exist, checked by name only: false for a checkpoint that is
/// being removed.
bool checkpoint_exists(const std::filesystem::path& folder);

/// Empty if the manifest exists and every file has its size and checksum; else the reason.
std::string manifest_problem(const std::filesystem::path& folder);

/// The parts of a checkpoint with one checksum each, from its manifest: `transformer 1f3e5a7790bc,
/// optimizer/mu 77..., train_state ...`. Equal texts mean equal bytes. Throws an Error without a
/// manifest.
std::string describe_parts(const std::filesystem::path& folder);

}  // namespace kinema::checkpoints
