#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "kinema/io/descriptor.h"

namespace kinema::io {

/// A file that appears under its name only when complete: written beside it under a temporary name,
/// fsynced, then renamed over it, and the folder fsynced.
///
/// Without commit() the temporary file is removed and whatever stood at `path` stays as it was.
class AtomicFile {
 public:
  /// Opens the temporary file; throws an Error when the folder does not exist or is not writable.
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  /// Appends; throws an Error with the reason (`No space left on device`) when the disk refuses.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  uint64_t written() const { return written_; }
  /// Makes the file durable and visible under its name.
  void commit();

 private:
  void put(std::span<const std::byte> bytes);
  void flush();

  std::filesystem::path path_;
  std::string temporary_;
  std::string buffer_;
  Descriptor file_;  // none when complete
  uint64_t written_ = 0;
};

/// Writes a whole file through AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view text);

/// Makes an empty file where nothing has that name yet; false where something has, which stays as
/// it is. Of several who try, one is told true. Throws an Error where no file can be made.
bool create_file(const std::filesystem::path& path);

/// Has two paths, of one file system, name each other's file or folder, in one moment. False where
/// the file system or the kernel cannot do that: nothing has changed. Throws an Error where it
/// fails otherwise.
bool exchange(const std::filesystem::path& a, const std::filesystem::path& b);

/// Makes a folder's entries durable; a rename into it is only safe after this.
void sync_folder(const std::filesystem::path& folder);

}  // namespace kinema::io
