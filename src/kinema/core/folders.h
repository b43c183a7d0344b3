#pragma once

#include <filesystem>

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

}  // namespace kinema
