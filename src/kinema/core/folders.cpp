#include "kinema/core/folders.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"

namespace kinema {
namespace {

namespace fs = std::filesystem;

/// An absolute path from the environment; a relative one would depend on the working directory.
fs::path absolute_path(const char* name) {
  const char* value = std::getenv(name);
  const fs::path path = value == nullptr ? "" : value;
  return path.is_absolute() ? path : fs::path();
}

/// `kinema-UID` in the temporary folder. Anyone may write there, and may have made this folder
/// first.
fs::path private_temporary_folder() {
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  fs::path folder = (error ? fs::path("/tmp") : temporary) / fmt::format("kinema-{}", geteuid());
  constexpr const char* kRemedy = "set HOME, or KINEMA_CACHE to a folder of your own";
  check(mkdir(folder.c_str(), S_IRWXU) == 0 || errno == EEXIST,
        "[cache] HOME is not set, and {} cannot be made: {}\n  {}", folder.string(),
        errno_text(errno), kRemedy);
  struct stat found {};
  check(lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
            (found.st_mode & (S_IRWXG | S_IRWXO)) == 0,
        "[cache] HOME is not set, and {} is not a private folder of this user\n  {}",
        folder.string(), kRemedy);
  return folder;
}

}  // namespace

fs::path user_home() { return absolute_path("HOME"); }

fs::path user_cache() {
  if (fs::path cache = absolute_path("XDG_CACHE_HOME"); !cache.empty()) {
    return cache;
  }
  const fs::path home = user_home();
  return home.empty() ? private_temporary_folder() : home / ".cache";
}

fs::path program_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

std::string_view not_a_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) ? "is not a folder" : "does not exist";
}

std::string file_error_text(const std::filesystem::filesystem_error& error) {
  const std::string path = error.path1().empty() ? std::string() : error.path1().string() + ": ";
  const std::string other = error.path2().empty() ? std::string() : error.path2().string() + ": ";
  return "[files] " + path + other + errno_text(error.code());
}

}  // namespace kinema
