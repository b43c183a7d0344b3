#pragma once

#include <string>
#include <system_error>

namespace kinema {

/// The system's message of an `errno`, with a remedy on a line of its own where one is known: a
/// full disk, a quota, a limit of file sizes (`ulimit -f`) or of open files (`ulimit -n`). Safe to
/// call from several threads, unlike std::strerror.
std::string errno_text(int error);

/// The same of an error of std::filesystem.
std::string errno_text(const std::error_code& error);

}  // namespace kinema
