#pragma once

// Private to the room: WebP through libwebp, whose pixels are those that Pillow has.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/media/image.h"

namespace kinema::media {

/// Whether the bytes begin as a WebP file does.
bool is_webp(std::span<const std::byte> bytes);

/// Whether it is an animation.
bool is_webp_animation(std::span<const std::byte> bytes);

/// What decode_webp gives, from the headers alone. Throws an Error with what is wrong.
ImageSize webp_size(std::span<const std::byte> bytes);

/// Decodes a still picture to u8 [1, h, w, 3], RGB, upright as Exif says, over the background.
/// Throws an Error with what is wrong for a damaged or truncated file, an animation, and one with
/// more than `max_pixels`.
HostArray decode_webp(std::span<const std::byte> bytes, int64_t max_pixels,
                      const Background& background);

}  // namespace kinema::media
