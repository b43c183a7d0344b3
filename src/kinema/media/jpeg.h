#pragma once

// Private to the room: JPEG through libjpeg, whose pixels are those that Pillow has.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/media/image.h"

namespace kinema::media {

/// Whether the bytes begin as a JPEG file does.
bool is_jpeg(std::span<const std::byte> bytes);

/// What decode_jpeg gives, from the header alone. Throws an Error with the decoder's words when
/// that is damaged.
ImageSize jpeg_size(std::span<const std::byte> bytes);

/// Decodes to u8 [1, h, w, 3], RGB, upright as Exif says. Grey and CMYK become RGB as Pillow's
/// `convert("RGB")` has it. Throws an Error with the decoder's words for a damaged or truncated
/// file, one with more than `max_pixels`, and one of more scans than any encoder makes.
HostArray decode_jpeg(std::span<const std::byte> bytes, int64_t max_pixels);

}  // namespace kinema::media
