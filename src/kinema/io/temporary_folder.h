#pragma once

#include <filesystem>
#include <string>

namespace kinema::io {

/// A folder that goes when this does.
class TemporaryFolder {
 public:
  /// `kinema-NAME-` and letters, among the system's temporary files. Throws an Error where none can
  /// be made.
  explicit TemporaryFolder(const std::string& name);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kinema::io
