#pragma once

#include <filesystem>

#include "kinema/io/descriptor.h"
#include "kinema/io/folder.h"

namespace kinema::checkpoints {

/// Locks a run folder for this process, with the file `.lock` in it, until the object is destroyed
/// or the process ends in any way. A folder that was created for it is removed again if nothing
/// else was put into it, so that a run that fails to start leaves no folder.
class RunLock {
 public:
  /// Creates the folder if it is missing. Throws an Error with the other process if one has locked
  /// the folder.
  explicit RunLock(const std::filesystem::path& run_folder);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

  /// False if the folder was removed, renamed or replaced since: files written under its path would
  /// then be lost.
  bool is_in_place() const;

 private:
  void take();

  io::OutputFolder folder_;  // destroyed last
  std::filesystem::path path_;
  io::Descriptor file_;
  bool made_ = false;
};

/// True if a process of this machine has locked a run folder.
bool is_training(const std::filesystem::path& run_folder);

}  // namespace kinema::checkpoints
