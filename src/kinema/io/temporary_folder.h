#pragma once

#include <filesystem>
#include <string>

namespace kinema::io {

/// A folder that the destructor removes.
class TemporaryFolder {
 public:
  /// `kinema-NAME-` plus letters, in the system's folder of temporary files. Throws an Error if it
  /// cannot be created.
  explicit TemporaryFolder(const std::string& name);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kinema::io
