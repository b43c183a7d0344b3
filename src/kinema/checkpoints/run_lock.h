#pragma once

#include <filesystem>

#include "kinema/io/descriptor.h"
#include "kinema/io/folder.h"

namespace kinema::checkpoints {

/// Holds a run folder for this process: a lock on the file `.lock` in it, given back when the
/// object goes or the process ends, however it ends. A folder that was made for it goes with it
/// where nothing else was put in: a run that was refused leaves nothing behind.
class RunLock {
 public:
  /// Makes the folder when it is missing. Throws an Error that names the other process when one
  /// holds the folder already.
  explicit RunLock(const std::filesystem::path& run_folder);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

  /// False when the folder was removed, renamed or replaced since: what is written under its name
  /// goes elsewhere or nowhere.
  bool is_in_place() const;

 private:
  void take();

  io::FolderToFill folder_;  // goes last
  std::filesystem::path path_;
  io::Descriptor file_;
  bool made_ = false;
};

/// Whether a process of this machine holds a run folder now.
bool is_training(const std::filesystem::path& run_folder);

}  // namespace kinema::checkpoints
