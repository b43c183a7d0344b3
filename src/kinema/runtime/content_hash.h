#pragma once

#include <string>

namespace kinema::runtime {

/// The XXH3 hash of a file's bytes, 32 hexadecimal digits. Hashes are cached by the file's device,
/// inode, size and times of change, in this process and, if possible, in a file in `memory`, a
/// folder: plugins have several hundred megabytes. If the file cannot be read, the hash of its
/// path. Never throws.
std::string content_hash(const std::string& path, const std::string& memory);

}  // namespace kinema::runtime
