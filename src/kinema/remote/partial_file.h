#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kinema/io/descriptor.h"
#include "kinema/remote/digest.h"

namespace kinema::remote {

/// Data about a file before its download.
struct ExpectedContent {
  std::string what;      // for messages: `vae/config.json of Wan-AI/Wan2.1-T2V-1.3B-Diffusers`
  int64_t size = -1;     // -1: unknown
  std::string sha256;    // hexadecimal; empty: unknown
  std::string git_sha1;  // of git's blob object; empty: unknown; requires the size
  std::optional<uint32_t> crc32c = {};
};

/// A partial file, maybe continued from an earlier process. While the object exists, other
/// processes that download the same file wait. Disk failures are Errors.
class PartialFile {
 public:
  /// Opens or creates the file, and reads the existing bytes.
  PartialFile(std::filesystem::path path, ExpectedContent expected);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  /// Keeps the partial file, unless it is empty.
  ~PartialFile();

  int64_t size() const { return size_; }
  bool is_complete() const { return expected_.size >= 0 && size_ == expected_.size; }

  /// Throws an Error for more bytes than promised.
  void append(std::span<const std::byte> bytes);
  /// Drops all bytes.
  void restart();
  /// Removes the file.
  void remove();
  /// Throws an Error, and removes the file, if the bytes do not match.
  void verify();
  /// Makes it durable and visible at `to`.
  void publish(const std::filesystem::path& to);

 private:
  void open_locked();
  void take(std::span<const std::byte> bytes);
  void begin_digest();
  void read_back();

  std::filesystem::path path_;
  ExpectedContent expected_;
  io::Descriptor file_;
  bool published_ = false;
  int64_t size_ = 0;
  std::unique_ptr<Digest> digest_;
  uint32_t crc_ = 0;
};

}  // namespace kinema::remote
