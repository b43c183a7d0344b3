#pragma once

#include <cstdint>
#include <string_view>

namespace kinema::http {

/// The part of a file that a `Range` field asks for.
struct ByteRange {
  enum class Kind : uint8_t {
    WHOLE,      ///< no range, a malformed one or other units: all of it, status 200
    PART,       ///< bytes [begin, end), status 206
    IMPOSSIBLE  ///< beyond the end: status 416
  };
  Kind kind = Kind::WHOLE;
  int64_t begin = 0;
  int64_t end = 0;
};

/// Reads `bytes=0-99`, `bytes=100-` or `bytes=-500` for a file of `size` bytes (RFC 9110, 14.1.2).
/// Several ranges, which no player asks for, are answered with all of it, as the standard allows.
ByteRange read_range(std::string_view field, int64_t size);

}  // namespace kinema::http
