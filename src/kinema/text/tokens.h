#pragma once

#include <cstdint>
#include <vector>

namespace kinema::text {

/// Token ids of one prompt.
struct Tokens {
  std::vector<int64_t> ids;  // the last is the end of the sequence
  int64_t dropped = 0;       // tokens that did not fit
};

}  // namespace kinema::text
