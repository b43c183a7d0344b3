#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::io {

/// True for bytes that start like a gzip file.
bool is_gzip(std::span<const std::byte> bytes);

/// The decompressed contents of a gzip file (RFC 1952, may have several members). `source` is its
/// name in errors; throws an Error for more than `limit` bytes.
std::vector<std::byte> gunzip(std::span<const std::byte> bytes, const std::string& source,
                              size_t limit = size_t{4} << 30);

/// The bytes compressed as a gzip file.
std::string gzip(std::string_view bytes);

}  // namespace kinema::io
