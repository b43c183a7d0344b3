#include "kinema/io/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/io/descriptor.h"

namespace kinema::io {

namespace fs = std::filesystem;

void check_writable(const fs::path& folder) {
  fs::path there = folder.empty() ? fs::path(".") : folder;
  std::error_code ignored;
  while (!fs::exists(fs::symlink_status(there, ignored))) {
    there = there.has_parent_path() && there.parent_path() != there ? there.parent_path() : ".";
  }
  check(fs::is_directory(there, ignored), "[io] {} cannot be a folder: {} is a file",
        folder.string(), there.string());
  // Called first, because an argument of check() may be evaluated before its condition.
  const int problem = ::access(there.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
  check(problem == 0, "[io] the folder {} cannot be written to: {}", there.string(),
        problem == EROFS    ? "its file system is read-only"
        : problem == EACCES ? "permission denied"
                            : errno_text(problem));
}

void check_replaceable(const fs::path& path, std::string_view begin, std::string_view what) {
  std::error_code ignored;
  check(!fs::is_directory(path, ignored), "[io] {} is a folder, a file was expected",
        path.string());
  if (!fs::is_regular_file(path, ignored)) {
    return;
  }
  std::ifstream file(path, std::ios::binary);
  std::string start(begin.size(), '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(file.gcount()));
  check(file.is_open() && (start.empty() || start == begin),
        "[io] {} exists and is not {}: it is not overwritten\n  remove it, or give another name",
        path.string(), what);
}

void check_new_file(const fs::path& path) {
  std::error_code ignored;
  check(!fs::exists(fs::symlink_status(path, ignored)),
        "[io] {} exists: it is not overwritten\n  remove it, or give another name", path.string());
}

void make_folder(const fs::path& folder) {
  if (folder.empty()) {
    return;
  }
  check_writable(folder);
  std::error_code error;
  fs::create_directories(folder, error);
  check(!error, "[io] the folder {} cannot be made: {}", folder.string(), errno_text(error));
}

std::string write_problem(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return errno_text(error);
  }
  std::string name = (folder / ".write-XXXXXX").string();
  const Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file) {
    return errno_text(errno);
  }
  // A full disk can still create names, so a block is written.
  const std::array<std::byte, 4096> block{};
  const int problem = write_all(file, block);
  ::unlink(name.c_str());
  return problem == 0 ? "" : errno_text(problem);
}

void OutputFolder::make() {
  std::error_code ignored;
  for (fs::path each = folder_; !each.empty() && !fs::exists(fs::symlink_status(each, ignored));
       each = each.parent_path()) {
    made_.push_back(each);
  }
  make_folder(folder_);
}

OutputFolder::~OutputFolder() {
  for (const fs::path& each : made_) {
    std::error_code ignored;  // it is not empty
    fs::remove(each, ignored);
  }
}

}  // namespace kinema::io
