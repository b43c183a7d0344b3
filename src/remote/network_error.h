#pragma once

#include "core/error.h"

namespace kinema::remote {

/// No whole answer came: no network, no such host, time-out, connection lost.
class NetworkError : public Error {
 public:
  using Error::Error;
};

}  // namespace kinema::remote
