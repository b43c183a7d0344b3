#pragma once

#include <string>

#include "core/error.h"

namespace kinema::remote {

/// No whole answer came: no network, no such host, time-out, connection lost.
class NetworkError : public Error {
 public:
  using Error::Error;
  /// What happened, to stand within another message.
  std::string reason() const { return without_room(what()); }
};

}  // namespace kinema::remote
