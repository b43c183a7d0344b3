#pragma once

// Private to the room: AVIF through libavif, whose pixels are those that Pillow has.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/media/image.h"

namespace kinema::media {

/// Whether the bytes begin as an AVIF file does, still or not (ISO/IEC 23000-22, brands `avif` and
/// `avis`).
bool is_avif(std::span<const std::byte> bytes);

/// What decode_avif gives, from the boxes alone. Throws an Error with what is wrong.
ImageSize avif_size(std::span<const std::byte> bytes, int64_t max_pixels);

/// Decodes a still picture to u8 [1, h, w, 3], RGB, upright as its boxes say (`irot` and `imir`;
/// libraries write the Exif orientation there), over the background, of PQ or HLG tone-mapped.
/// Throws an Error with what is wrong for a damaged or truncated file, an animation, and one with
/// more than `max_pixels`.
HostArray decode_avif(std::span<const std::byte> bytes, int64_t max_pixels,
                      const Background& background);

}  // namespace kinema::media
