#pragma once

#include <string>
#include <string_view>

#include "kinema/core/error.h"

namespace kinema::remote {

/// A message without the `[room] ` that it begins with, to stand within another.
inline std::string without_room(std::string_view message) {
  const size_t end = message.starts_with('[') ? message.find("] ") : std::string_view::npos;
  return std::string(end == std::string_view::npos ? message : message.substr(end + 2));
}

/// No whole answer came: no network, no such host, time-out, connection lost.
class NetworkError : public Error {
 public:
  using Error::Error;
  /// What happened, to stand within another message.
  std::string reason() const { return without_room(what()); }
};

}  // namespace kinema::remote
