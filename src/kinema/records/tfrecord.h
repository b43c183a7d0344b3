#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"

namespace kinema::records {

/// A TFRecord file: frames of length, masked CRC of the length, payload, masked CRC of the payload.
///
/// Opening walks the lengths and checks their CRCs; a payload's CRC is checked when it is read.
class TfRecordFile {
 public:
  /// Throws an Error with file, record and byte for a corrupt length or a truncated file. A file
  /// compressed with gzip is decompressed in memory.
  static TfRecordFile open(const std::filesystem::path& path);
  /// The same over bytes in memory, which must outlive the result.
  static TfRecordFile parse(std::span<const std::byte> bytes, const std::string& source);

  int64_t size() const { return static_cast<int64_t>(records_.size()); }
  /// Payload of record i, as a view of the mapping; throws an Error if its CRC does not match.
  std::span<const std::byte> at(int64_t i) const;
  /// The same without checking the CRC, for readers of a part of it.
  std::span<const std::byte> unchecked(int64_t i) const;
  const std::string& path() const { return path_; }
  /// `clips.tfrec record 3`, for messages.
  std::string where(int64_t i) const;

 private:
  struct Extent {
    uint64_t offset;
    uint64_t length;
  };
  std::string path_;
  io::MappedFile file_;
  std::vector<std::byte> decompressed_;  // used instead of the mapping if the file is compressed
  std::span<const std::byte> bytes_;
  std::vector<Extent> records_;
};

/// The shards among a folder's files, in order: every file except hidden ones, as in MaxDiffusion;
/// if some are named .tfrec or .tfrecord, only those.
std::vector<std::string> shards_of(std::vector<std::string> names);

/// Writes records to a file that appears when close() is called.
class TfRecordWriter {
 public:
  explicit TfRecordWriter(const std::filesystem::path& path) : file_(path) {}
  void append(std::string_view payload);
  /// Bytes appended so far.
  uint64_t written() const { return file_.written(); }
  void close() { file_.commit(); }

 private:
  io::AtomicFile file_;
};

/// One frame as bytes (TensorBoard event files share the format).
std::string frame_record(std::string_view payload);

}  // namespace kinema::records
