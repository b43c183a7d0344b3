#pragma once

// Private to the module: sizes in Matroska and WebM files (RFC 9559, over EBML, RFC 8794).

#include <cstddef>
#include <cstdint>
#include <span>

namespace kinema::media {

/// The size of a complete Matroska or WebM file in bytes; 0 for other files, and for recordings
/// that do not state it.
uint64_t matroska_bytes(std::span<const std::byte> file);

}  // namespace kinema::media
