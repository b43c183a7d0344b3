#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace kinema::io {

/// A file mapped read-only into memory; unmapped when the object goes.
///
/// The mapping stays valid when the file is renamed or unlinked. A file that another process
/// shortens meanwhile is outside what a mapping can guard against.
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

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// The whole file as text; throws an Error when it is larger than `limit` bytes.
std::string read_text(const std::filesystem::path& path, size_t limit = size_t{64} << 20);

}  // namespace kinema::io
