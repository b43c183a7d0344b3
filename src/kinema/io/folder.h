#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kinema::io {

/// Throws an Error if no file can be created in the folder: if it, or its nearest existing parent,
/// is a file or not writable. Creates nothing: for a check before long work.
void check_writable(const std::filesystem::path& folder);

/// Creates the folder and its parents if they are missing; throws an Error if it cannot be created
/// or written to. Does nothing for an empty path, the current folder.
void make_folder(const std::filesystem::path& folder);

/// Throws an Error if `path` is a folder, or a non-empty file that does not start with `begin`: a
/// file of another kind must not be overwritten. `what` is the expected kind: `a PNG picture`.
void check_replaceable(const std::filesystem::path& path, std::string_view begin,
                       std::string_view what);

/// Throws an Error if something exists at `path`: what a user names may be a file of the user's
/// own.
void check_new_file(const std::filesystem::path& path);

/// Why no file can be written to a folder, as the system's message (`Permission denied`, `No space
/// left on device`); empty if one can. Creates a missing folder, and tries.
std::string write_problem(const std::filesystem::path& folder);

/// A folder to fill: the destructor removes the folders that it created and that are still empty.
class OutputFolder {
 public:
  explicit OutputFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder();

  /// As make_folder.
  void make();
  const std::filesystem::path& path() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> made_;  // the innermost first
};

}  // namespace kinema::io
