#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace kinema::io {

/// A file format, identified by a file's first bytes, for messages about files of the wrong kind.
struct FileFormat {
  std::string_view name;    // `a ZIP archive`, `a JPEG 2000 picture`; empty: unknown
  std::string_view remedy;  // what makes a file that kinema reads of it; may be empty
  bool is_media = false;    // a picture or video that kinema reads

  explicit operator bool() const { return !name.empty(); }
};

/// The format by the first bytes (512 suffice). Also has formats that kinema reads elsewhere, such
/// as PNG: callers ask only after their own reader failed.
FileFormat file_format(std::span<const std::byte> bytes);
/// The same for a file; unknown for a folder or a file that cannot be read.
FileFormat file_format(const std::filesystem::path& path);

/// `x.zip is a ZIP archive, expected weights`, with the remedy on a second line. Returns an empty
/// text for an unknown format.
std::string wrong_format_text(const std::string& path, const FileFormat& format,
                              std::string_view expected);

}  // namespace kinema::io
