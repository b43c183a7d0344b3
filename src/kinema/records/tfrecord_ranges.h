#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kinema/io/ranged_file.h"

namespace kinema::records {

/// The payload lengths of a TFRecord file, with few reads: for large records only their headers,
/// for small records large consecutive blocks.
///
/// Throws an Error with file, record and byte for a corrupt length or a truncated file, and for a
/// gzip file, which can only be read completely.
std::vector<uint64_t> read_record_lengths(const io::RangedFile& file);

/// A TFRecord file that is read by ranges, one request per record. Thread-safe.
class RangedTfRecords {
 public:
  /// Throws an Error if the lengths do not add up to the file's size.
  RangedTfRecords(std::shared_ptr<const io::RangedFile> file, const std::vector<uint64_t>& lengths);

  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  const std::string& path() const { return file_->path(); }
  /// `gs://bucket/clips.tfrec record 3`, for messages.
  std::string where(int64_t i) const;
  /// Payload of record i; throws an Error if it cannot be read or its CRC does not match.
  std::vector<std::byte> at(int64_t i) const;

 private:
  std::shared_ptr<const io::RangedFile> file_;
  std::vector<uint64_t> offsets_;  // of the frames, plus the file's size
};

}  // namespace kinema::records
