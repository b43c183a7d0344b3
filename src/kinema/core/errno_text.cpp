#include "kinema/core/errno_text.h"

#include <cerrno>

namespace kinema {
namespace {

const char* remedy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "\n  free some space or choose another folder";
    case EFBIG:
      return "\n  a file may not become this large: raise the limit of this shell "
             "(`ulimit -f unlimited`), or choose another file system";
    case EMFILE:
      return "\n  raise the limit of open files of this shell, e.g. `ulimit -n 65536`";
    case ENFILE:
      return "\n  all programs of this machine together have too many open files: close some";
    default:
      return "";
  }
}

}  // namespace

std::string errno_text(int error) { return std::generic_category().message(error) + remedy(error); }

std::string errno_text(const std::error_code& error) {
  const bool is_errno =
      error.category() == std::generic_category() || error.category() == std::system_category();
  return error.message() + (is_errno ? remedy(error.value()) : "");
}

}  // namespace kinema
