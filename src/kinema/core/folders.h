#pragma once

#include <filesystem>
#include <string>

#include "kinema/core/error.h"

namespace kinema {

/// HOME, or an empty path where the environment names no absolute one.
std::filesystem::path user_home();

/// Where this user's programs keep what can be made or fetched again: XDG_CACHE_HOME, else
/// HOME/.cache. Without either a folder of the user's own, `kinema-UID` in the temporary folder,
/// made with mode 0700. Plugins are loaded from below it, so nobody else may have made it: throws
/// an Error where it belongs to another user, is open to others, or is no folder.
std::filesystem::path user_cache();

/// The folder of this process's executable; an empty path where the kernel does not say.
std::filesystem::path program_folder();

/// What a file system call that failed has to say, as an Error does: `[files] PATH: Permission
/// denied`.
std::string file_error_text(const std::filesystem::filesystem_error& error);

/// `work()`, with an Error in place of such an exception.
template <typename Work>
auto with_file_errors(const Work& work) {
  try {
    return work();
  } catch (const std::filesystem::filesystem_error& error) {
    fail("{}", file_error_text(error));
  }
}

}  // namespace kinema
