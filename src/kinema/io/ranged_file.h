#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace kinema::io {

/// A file that lies elsewhere, of which parts are read. May be used from several threads.
class RangedFile {
 public:
  virtual ~RangedFile() = default;
  /// For messages.
  virtual const std::string& path() const = 0;
  virtual int64_t size() const = 0;
  /// Fills `to` with the bytes from `begin` on. Throws an Error when they cannot be had.
  virtual void read(int64_t begin, std::span<std::byte> to) const = 0;
};

}  // namespace kinema::io
