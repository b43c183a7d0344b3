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

/// What is known of a file before it comes.
struct Promise {
  std::string what;      // for messages: `vae/config.json of Wan-AI/Wan2.1-T2V-1.3B-Diffusers`
  int64_t size = -1;     // -1: not known
  std::string sha256;    // hexadecimal; empty: not known
  std::string git_sha1;  // of git's blob object; empty: not known; needs the size
  std::optional<uint32_t> crc32c = {};
};

/// A file under way: what came of it so far, be it in an earlier process. While the object lives,
/// others that want the same file wait. Errors of the disk are Errors.
class PartialFile {
 public:
  /// Opens or makes the file, and reads what is there.
  PartialFile(std::filesystem::path path, Promise promise);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  /// What came is kept, if anything did.
  ~PartialFile();

  int64_t size() const { return size_; }
  bool is_complete() const { return promise_.size >= 0 && size_ == promise_.size; }

  /// Throws an Error for more bytes than were promised.
  void append(std::span<const std::byte> bytes);
  /// Drops what came.
  void restart();
  /// Drops the file.
  void remove();
  /// Throws an Error, and drops the file, when the bytes are not those that were promised.
  void verify();
  /// Makes it durable and visible at `to`.
  void publish(const std::filesystem::path& to);

 private:
  void open_locked();
  void take(std::span<const std::byte> bytes);
  void begin_digest();
  void read_back();

  std::filesystem::path path_;
  Promise promise_;
  io::Descriptor file_;
  bool published_ = false;
  int64_t size_ = 0;
  std::unique_ptr<Digest> digest_;
  uint32_t crc_ = 0;
};

}  // namespace kinema::remote
