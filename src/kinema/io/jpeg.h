#pragma once

// Private to the room: JPEG through libjpeg, whose pixels are those that Pillow has.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kinema/core/host_array.h"

namespace kinema::io {

/// Whether the bytes begin as a JPEG file does.
bool is_jpeg(std::span<const std::byte> bytes);

/// Height and width as decode_jpeg gives them, from the header alone. Throws an Error that names
/// the image when that is damaged.
Dims jpeg_dims(std::span<const std::byte> bytes, const std::string& name);

/// Decodes to u8 [1, h, w, 3], RGB, upright as Exif says. Grey and CMYK become RGB as Pillow's
/// `convert("RGB")` has it. Throws an Error with the decoder's words for a damaged or truncated
/// file, one with more than `max_pixels`, and one of more scans than any encoder makes.
HostArray decode_jpeg(std::span<const std::byte> bytes, int64_t max_pixels);

}  // namespace kinema::io
