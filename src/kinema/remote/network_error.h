#pragma once

#include <string>
#include <string_view>

#include "kinema/core/error.h"

namespace kinema::remote {

/// A message without its prefix `[module] `, to use inside another message.
inline std::string without_module(std::string_view message) {
  const size_t end = message.starts_with('[') ? message.find("] ") : std::string_view::npos;
  return std::string(end == std::string_view::npos ? message : message.substr(end + 2));
}

/// The response is incomplete: no network, unknown host, timeout, lost connection.
class NetworkError : public Error {
 public:
  using Error::Error;
  /// The reason, to use inside another message.
  std::string reason() const { return without_module(what()); }
};

}  // namespace kinema::remote
