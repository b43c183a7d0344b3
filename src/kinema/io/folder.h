#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kinema::io {

/// Throws an Error when no file could be made in the folder: it, or the nearest folder above it
/// that is there, is a file or may not be written to. Makes nothing: for asking before long work.
void check_writable(const std::filesystem::path& folder);

/// Makes the folder and those above it where they are not there; throws an Error when it cannot be
/// made or written to. Does nothing for an empty path: the current folder is there.
void make_folder(const std::filesystem::path& folder);

/// Throws an Error where `path` is a folder, or a file that is not empty and does not begin with
/// `begin`: a file of another kind, which nobody meant to replace. `what` names the expected kind:
/// `a PNG picture`.
void check_replaceable(const std::filesystem::path& path, std::string_view begin,
                       std::string_view what);

/// Why no file can be written to a folder, in the system's words (`Permission denied`, `No space
/// left on device`); empty where one can. Makes the folder where it is missing, and tries.
std::string why_not_writable(const std::filesystem::path& folder);

/// A folder that is to be filled: with this object those go that it made and nobody put anything
/// in.
class FolderToFill {
 public:
  explicit FolderToFill(std::filesystem::path folder) : folder_(std::move(folder)) {}
  FolderToFill(const FolderToFill&) = delete;
  FolderToFill& operator=(const FolderToFill&) = delete;
  ~FolderToFill();

  /// As make_folder.
  void make();
  const std::filesystem::path& path() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> made_;  // the innermost first
};

}  // namespace kinema::io
