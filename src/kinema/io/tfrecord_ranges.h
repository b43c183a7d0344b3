#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kinema/io/ranged_file.h"

namespace kinema::io {

/// The lengths of the payloads of a TFRecord file, found by reading little of it: where records are
/// large, only what stands before each; where they are small, large blocks one after another.
///
/// Throws an Error with file, record and byte for a damaged length or a truncated file, and for one
/// that is compressed with gzip: such a file can only be read as a whole.
std::vector<uint64_t> read_record_lengths(const RangedFile& file);

/// A TFRecord file that is read by ranges, a request a record. May be used from several threads.
class RangedTfRecords {
 public:
  /// Throws an Error when records of these lengths do not make up the file.
  RangedTfRecords(std::shared_ptr<const RangedFile> file, const std::vector<uint64_t>& lengths);

  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  const std::string& path() const { return file_->path(); }
  /// `gs://bucket/clips.tfrec record 3`, for messages.
  std::string where(int64_t i) const;
  /// Payload of record i; throws an Error when it cannot be had or its CRC does not match.
  std::vector<std::byte> at(int64_t i) const;

 private:
  std::shared_ptr<const RangedFile> file_;
  std::vector<uint64_t> offsets_;  // of the frames, and the file's size
};

}  // namespace kinema::io
