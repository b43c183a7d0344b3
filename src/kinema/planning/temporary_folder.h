#pragma once

#include <filesystem>

namespace kinema::planning {

/// A folder that goes when this does.
class TemporaryFolder {
 public:
  /// Throws an Error where none can be made.
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kinema::planning
