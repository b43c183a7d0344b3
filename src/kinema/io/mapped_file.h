#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kinema::io {

class Descriptor;

/// A file mapped read-only into memory; unmapped by the destructor.
///
/// The mapping stays valid if the file is renamed or unlinked. If another process truncates the
/// file, or the disk fails, the system kills the process; after guard_mappings(), unreadable bytes
/// are zeros instead and check_intact throws.
class MappedFile {
 public:
  MappedFile() = default;
  /// Maps the whole file; one of less than a page is read, which takes less time. An empty file
  /// gives an empty span. Throws an Error with path and reason
  /// for a missing file, a folder, or a file that cannot be read.
  static MappedFile open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// Throws an Error if the file was truncated since it was mapped, or could not be read; call it
  /// after reading.
  void check_intact() const;

  /// The result of `parse` for the bytes. If the file was truncated, that is thrown instead of
  /// parse's error or result.
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
  bool read_small(const Descriptor& descriptor);

  std::string path_;
  const std::byte* data_ = nullptr;
  std::unique_ptr<std::byte[]> own_;  // data_ of a small file
  size_t size_ = 0;
  int guard_ = -1;
  bool has_holes_ = false;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

/// Throws an Error with `what` if a page with `bytes` of the mapped file could not be read. Cheap
/// enough to call often; a truncation inside the last page is only detected by
/// MappedFile::check_intact. Bytes outside of all mappings are intact.
void check_intact(std::span<const std::byte> bytes, std::string_view what);

/// Releases the complete pages inside `bytes` of a mapped file, for readers that are done with
/// them. Reading them again is allowed, and reads the file again.
void release_pages(std::span<const std::byte> bytes);

/// Asks the system to read ahead these bytes of the file.
void will_read(std::span<const std::byte> bytes);

/// Fills in bytes of a mapped file that may be a hole of a PartialCopy; readers of checkpoints call
/// it before they read. Throws the Errors of its RangedFile.
void bring(std::span<const std::byte> bytes);

/// Installs a handler of SIGBUS for files that are mapped later; call it at the start of a program.
/// A SIGBUS of other memory is passed to the earlier handler.
void guard_mappings();

/// The whole file as text; throws an Error if it is larger than `limit` bytes.
std::string read_text(const std::filesystem::path& path, size_t limit = size_t{64} << 20);

}  // namespace kinema::io
