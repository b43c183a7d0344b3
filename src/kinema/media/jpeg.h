#pragma once

// Private to the module: JPEG through libjpeg, with the same pixels as Pillow.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/media/image.h"

namespace kinema::media {

/// True if the bytes start like a JPEG file.
bool is_jpeg(std::span<const std::byte> bytes);

/// The result's size from the header. Throws an Error with the decoder's message if the header is
/// corrupt.
ImageSize jpeg_size(std::span<const std::byte> bytes);

/// Decodes to u8 [1, h, w, 3], RGB, upright by Exif. Grey and CMYK become RGB as in Pillow's
/// `convert("RGB")`. Throws an Error with the decoder's message for a corrupt or truncated file,
/// more than `max_pixels`, and more scans than any encoder writes.
HostArray decode_jpeg(std::span<const std::byte> bytes, int64_t max_pixels);

}  // namespace kinema::media
