#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "kinema/io/ranged_file.h"

namespace kinema::io {

/// A sparse local copy of a remote file, of which only the start was downloaded. While the object
/// exists, `bring` (mapped_file.h) fills requested bytes of mappings of the file. Several processes
/// may fill one file.
class PartialCopy {
 public:
  /// Creates the file at `path`, as long as `source`, with its first `present` bytes.
  static void make(const std::filesystem::path& path, const RangedFile& source, int64_t present);

  /// Opens an existing file. Throws an Error if its length differs from `source`.
  PartialCopy(const std::filesystem::path& path, std::shared_ptr<const RangedFile> source,
              int64_t present);
  ~PartialCopy();
  PartialCopy(const PartialCopy&) = delete;
  PartialCopy& operator=(const PartialCopy&) = delete;

  /// Bytes that this object has downloaded so far.
  int64_t bytes_downloaded() const;

  struct Holes;

 private:
  std::shared_ptr<Holes> holes_;
};

/// True for a file that may have holes, by its device and inode.
bool is_partial_copy(dev_t device, ino_t inode);
/// Called by MappedFile: a mapping of a file. Returns true if the file has holes; then call
/// forget_mapping when it is unmapped.
bool note_mapping(const std::byte* data, size_t size, dev_t device, ino_t inode);
void forget_mapping(const std::byte* data);

}  // namespace kinema::io
