#pragma once

#include <filesystem>

namespace kinema::train {

/// Holds a run folder for this process: a lock on the file `.lock` in it, given back when the
/// object goes or the process ends, however it ends.
class RunLock {
 public:
  /// Makes the folder when it is missing. Throws an Error that names the other process when one
  /// holds the folder already.
  explicit RunLock(const std::filesystem::path& run_folder);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

 private:
  int fd_ = -1;
};

}  // namespace kinema::train
