#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "kinema/io/descriptor.h"

namespace kinema::io {

/// A file that appears under its name only when complete: it is written next to it under a
/// temporary name, fsynced, then renamed, and the folder fsynced.
///
/// Without commit() the temporary file is removed and an existing file at `path` is unchanged.
class AtomicFile {
 public:
  /// Opens the temporary file; throws an Error if the folder does not exist or is not writable, or
  /// if `path` is no place for a file.
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  /// Appends; throws an Error with the reason (`No space left on device`) if that fails.
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
  Descriptor file_;  // empty when complete
  uint64_t written_ = 0;
};

/// Throws an Error if something is at `path` that a rename would replace and that is not a file.
void check_file_place(const std::filesystem::path& path);

/// Writes a complete file through AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view text);

/// Creates an empty file; returns false if the name exists, which stays unchanged. If several
/// processes try, one gets true. Throws an Error if no file can be created.
bool create_file(const std::filesystem::path& path);

/// Atomically exchanges two files or folders of one file system. Returns false if the file system
/// or the kernel does not support it: nothing has changed then. Throws an Error for other failures.
bool exchange(const std::filesystem::path& a, const std::filesystem::path& b);

/// Makes a folder's entries durable; a rename into the folder is safe only after this.
void sync_folder(const std::filesystem::path& folder);

}  // namespace kinema::io
