#pragma once

// Private to the module: WebP through libwebp, with the same pixels as Pillow.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/media/image.h"

namespace kinema::media {

/// True if the bytes start like a WebP file.
bool is_webp(std::span<const std::byte> bytes);

/// True for an animation.
bool is_webp_animation(std::span<const std::byte> bytes);

/// The result's size from the headers. Throws an Error with the problem.
ImageSize webp_size(std::span<const std::byte> bytes);

/// Decodes a still picture to u8 [1, h, w, 3], RGB, upright by Exif, over the background. Throws an
/// Error with the problem for a corrupt or truncated file, an animation, and more than
/// `max_pixels`.
HostArray decode_webp(std::span<const std::byte> bytes, int64_t max_pixels,
                      const Background& background);

}  // namespace kinema::media
