#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace kinema::io {

/// The files in a zip archive as parts of its bytes, which must outlive it. With sizes and offsets
/// of 64 bits (ZIP64). Checksums are not compared: torch may write archives without them.
class ZipArchive {
 public:
  /// Reads the directory and the header of each file. Throws an Error with `source` for an archive
  /// that is truncated, split, encrypted or contradicts itself.
  static ZipArchive parse(std::span<const std::byte> bytes, const std::string& source);

  struct File {
    std::span<const std::byte> bytes;  // as stored
    bool is_compressed = false;
  };
  const std::map<std::string, File, std::less<>>& files() const { return files_; }
  /// The bytes of a file, or nothing without it; throws an Error for a compressed one.
  std::span<const std::byte> find(std::string_view name) const;
  bool has(std::string_view name) const { return files_.contains(name); }

 private:
  std::string source_;
  std::map<std::string, File, std::less<>> files_;
};

/// True for bytes that begin as a zip archive with files.
bool is_zip(std::span<const std::byte> bytes);

}  // namespace kinema::io
