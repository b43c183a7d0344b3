#pragma once

// Private to the room: what Matroska and WebM files (RFC 9559, over EBML, RFC 8794) say of
// themselves.

#include <cstddef>
#include <cstdint>
#include <span>

namespace kinema::media {

/// How many bytes a whole Matroska or WebM file has; 0 for other files, and for recordings that
/// were written without going back to say it.
uint64_t matroska_bytes(std::span<const std::byte> file);

}  // namespace kinema::media
