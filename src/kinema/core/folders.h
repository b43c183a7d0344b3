#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "kinema/core/error.h"

namespace kinema {

/// HOME; empty where it is unset or relative.
std::filesystem::path user_home();

/// Where this user's programs keep what can be made or fetched again: XDG_CACHE_HOME, else
/// HOME/.cache. Without either, `kinema-UID` in the temporary folder, made with mode 0700. Plugins
/// are loaded from inside it, so no other user may have made it: throws an Error where it belongs
/// to another user, is open to others, or is not a folder.
std::filesystem::path user_cache();

/// The folder of this process's executable; empty where the kernel does not tell.
std::filesystem::path program_folder();

/// For messages about a path that should be a folder: `does not exist` or `is not a folder`.
std::string_view not_a_folder(const std::filesystem::path& path);

/// The message of a failed file system call, in an Error's form: `[files] PATH: Permission denied`.
std::string file_error_text(const std::filesystem::filesystem_error& error);

/// Runs `work()` and turns a file system exception into an Error.
template <typename Work>
auto with_file_errors(const Work& work) {
  try {
    return work();
  } catch (const std::filesystem::filesystem_error& error) {
    fail("{}", file_error_text(error));
  }
}

}  // namespace kinema
