#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace kinema::io {

/// A remote file that is read by ranges. Thread-safe.
class RangedFile {
 public:
  virtual ~RangedFile() = default;
  /// For messages.
  virtual const std::string& path() const = 0;
  virtual int64_t size() const = 0;
  /// Fills `to` with the bytes from `begin`. Throws an Error if they cannot be read.
  virtual void read(int64_t begin, std::span<std::byte> to) const = 0;
};

}  // namespace kinema::io
