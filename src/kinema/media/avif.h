#pragma once

// Private to the module: AVIF through libavif, with the same pixels as Pillow.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/media/image.h"

namespace kinema::media {

/// True if the bytes start like an AVIF file, still or animated (ISO/IEC 23000-22, brands `avif`
/// and `avis`).
bool is_avif(std::span<const std::byte> bytes);

/// The result's size from the boxes, without decoding. Throws an Error with the problem.
ImageSize avif_size(std::span<const std::byte> bytes, int64_t max_pixels);

/// Decodes a still picture to u8 [1, h, w, 3], RGB, upright by its boxes (`irot` and `imir`, in
/// which libraries store the Exif orientation), over the background; PQ and HLG are tone-mapped.
/// Throws an Error with the problem for a corrupt or truncated file, an animation, and more than
/// `max_pixels`.
HostArray decode_avif(std::span<const std::byte> bytes, int64_t max_pixels,
                      const Background& background);

}  // namespace kinema::media
