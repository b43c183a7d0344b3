#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace kinema::io {

/// A file mapped read-only into memory; unmapped when the object goes.
///
/// The mapping stays valid when the file is renamed or unlinked. When another process shortens the
/// file, or the disk fails, the system ends the process; after guard_mappings() what can no longer
/// be read is zeros and check_intact throws.
class MappedFile {
 public:
  MappedFile() = default;
  /// Maps the whole file. An empty file gives an empty span. Throws an Error with path and reason
  /// for a missing file, a folder, or one that may not be read.
  static MappedFile open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// Throws an Error when the file became shorter since it was mapped, or could not be read; to be
  /// asked after reading.
  void check_intact() const;

  /// What `parse` makes of the bytes. That the file was cut off is a better reason than what it
  /// says of zeros, and an error even where it says nothing.
  template <typename Parse>
  auto parsed(const Parse& parse) const {
    try {
      auto out = parse(bytes());
      check_intact();
      return out;
    } catch (...) {
      check_intact();
      throw;
    }
  }

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int guard_ = -1;
  bool has_holes_ = false;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

/// Throws an Error naming `what` when a page of the mapped file that holds `bytes` could not be
/// read. Cheap, for asking often; bytes cut off inside the last page are seen by
/// MappedFile::check_intact alone. Bytes that lie in no mapping are intact.
void check_intact(std::span<const std::byte> bytes, std::string_view what);

/// Gives the pages that lie wholly inside `bytes`, which are a mapped file's, back to the system:
/// for readers that are done with them. Reading them again is correct, and reads the file again.
void release_pages(std::span<const std::byte> bytes);

/// Asks the system to begin reading the file there.
void will_read(std::span<const std::byte> bytes);

/// Has bytes of a mapped file come that may be a hole of a PartialCopy; to be asked before they are
/// read by who reads checkpoints. Throws what its RangedFile throws.
void bring(std::span<const std::byte> bytes);

/// Puts a handler of SIGBUS in place for files that are mapped from now on; one of a program's
/// first calls. A SIGBUS of other memory goes where it went before.
void guard_mappings();

/// The whole file as text; throws an Error when it is larger than `limit` bytes.
std::string read_text(const std::filesystem::path& path, size_t limit = size_t{64} << 20);

}  // namespace kinema::io
