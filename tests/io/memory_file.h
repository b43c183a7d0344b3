#pragma once

#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/ranged_file.h"

namespace kinema::io {

/// A file in memory that counts how it is read.
class MemoryFile : public RangedFile {
 public:
  explicit MemoryFile(std::string bytes, std::string path = "memory.tfrec")
      : bytes_(std::move(bytes)), path_(std::move(path)) {}

  const std::string& path() const override { return path_; }
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  void read(int64_t begin, std::span<std::byte> to) const override {
    const auto at = static_cast<size_t>(begin);
    check(begin >= 0 && at <= bytes_.size() && to.size() <= bytes_.size() - at,
          "[test] {} bytes from {} of {}", to.size(), begin, bytes_.size());
    std::memcpy(to.data(), bytes_.data() + at, to.size());
    ++requests;
    bytes_read += static_cast<int64_t>(to.size());
  }

  mutable std::atomic<int64_t> requests = 0;
  mutable std::atomic<int64_t> bytes_read = 0;

 private:
  std::string bytes_;
  std::string path_;
};

}  // namespace kinema::io
