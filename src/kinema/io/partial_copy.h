#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "kinema/io/ranged_file.h"

namespace kinema::io {

/// A local file that stands for one elsewhere, of which only the beginning has come; the rest is a
/// hole. While the object lives, `bring` (mapped_file.h) fills what is asked for of files that are
/// mapped from it. Several processes may fill one file.
class PartialCopy {
 public:
  /// Makes the file at `path`, as long as `source` and with its first `present` bytes.
  static void make(const std::filesystem::path& path, const RangedFile& source, int64_t present);

  /// Of a file that is there. Throws an Error when it is not as long as `source`.
  PartialCopy(const std::filesystem::path& path, std::shared_ptr<const RangedFile> source,
              int64_t present);
  ~PartialCopy();
  PartialCopy(const PartialCopy&) = delete;
  PartialCopy& operator=(const PartialCopy&) = delete;

  /// What this object has brought so far.
  int64_t bytes_brought() const;

  struct Holes;

 private:
  std::shared_ptr<Holes> holes_;
};

/// What MappedFile tells: a mapping of a file by its device and inode. True where it has holes, and
/// is to be told again when it goes.
bool note_mapping(const std::byte* data, size_t size, dev_t device, ino_t inode);
void forget_mapping(const std::byte* data);

}  // namespace kinema::io
