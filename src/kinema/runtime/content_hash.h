#pragma once

#include <string>

namespace kinema::runtime {

/// The XXH3 hash of a file's bytes, 32 hexadecimal digits. A hash is remembered by the file's
/// device, inode, size and times of change, in this process and, where it can be written, in a file
/// of `memory`, a folder: plugins have several hundred megabytes. Where the file cannot be read, of
/// its path alone. Never throws.
std::string content_hash(const std::string& path, const std::string& memory);

}  // namespace kinema::runtime
