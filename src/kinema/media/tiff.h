#pragma once

// Private to the room: TIFF through libtiff.

#include <cstddef>
#include <cstdint>
#include <span>

#include "kinema/core/host_array.h"
#include "kinema/media/image.h"

namespace kinema::media {

/// Whether the bytes begin as a TIFF file does (BigTIFF too).
bool is_tiff(std::span<const std::byte> bytes);

/// What decode_tiff gives, from the tags alone. Throws an Error with what is wrong.
ImageSize tiff_size(std::span<const std::byte> bytes);

/// Decodes the file's one page to u8 [1, h, w, 3], RGB, upright as its orientation says, over the
/// background: grey, RGB, palettes and CMYK of 8 or 16 bits, in strips or tiles, and what libtiff
/// turns into RGBA itself (1 to 4 bits, YCbCr, CIE L*a*b*). Throws an Error with what is wrong for
/// a damaged or truncated file, one of several pages (reduced ones and masks aside), floating-point
/// samples, and more than `max_pixels`.
HostArray decode_tiff(std::span<const std::byte> bytes, int64_t max_pixels,
                      const Background& background);

}  // namespace kinema::media
