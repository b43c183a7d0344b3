#pragma once

#include <filesystem>

namespace kinema::io {

/// Throws an Error when no file could be made in the folder: it, or the nearest folder above it
/// that is there, is a file or may not be written to. Makes nothing: for asking before long work.
void check_writable(const std::filesystem::path& folder);

/// Makes the folder and those above it where they are not there (nothing for an empty path, which
/// is the current folder); throws an Error when it cannot be made or written to.
void make_folder(const std::filesystem::path& folder);

}  // namespace kinema::io
