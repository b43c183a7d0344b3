#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace kinema {

/// The one exception type: `[room or op] what was given, what was expected`, then a remedy if
/// known.
///
/// The library throws it and never prints or exits; only the command line catches it.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A job that leaves nothing behind was stopped on request, before it had a result.
class Stopped : public Error {
 public:
  Stopped() : Error("[job] stopped on request before the end") {}
};

/// Throws an Error with the formatted message.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an Error unless `ok`; the message is formatted only then.
template <typename... Args>
void check(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) [[unlikely]] {
    fail(format, std::forward<Args>(args)...);
  }
}

}  // namespace kinema
