#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::io {

/// True for bytes that begin as a gzip file does.
bool is_gzip(std::span<const std::byte> bytes);

/// The decompressed contents of a gzip file (RFC 1952, several members allowed). `source` names it
/// in errors; more than `limit` bytes are refused.
std::vector<std::byte> gunzip(std::span<const std::byte> bytes, const std::string& source,
                              size_t limit = size_t{4} << 30);

/// The bytes as a gzip file.
std::string gzip(std::string_view bytes);

}  // namespace kinema::io
