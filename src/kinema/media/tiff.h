#pragma once

// Private to the module: TIFF through libtiff.

#include <cstddef>
#include <cstdint>
#include <span>

#include "kinema/core/host_array.h"
#include "kinema/media/image.h"

namespace kinema::media {

/// True if the bytes start like a TIFF file (or BigTIFF).
bool is_tiff(std::span<const std::byte> bytes);

/// The result's size from the tags. Throws an Error with the problem.
ImageSize tiff_size(std::span<const std::byte> bytes);

/// Decodes a file of one page to u8 [1, h, w, 3], RGB, upright by its orientation, over the
/// background: grey, RGB, palettes and CMYK with 8 or 16 bits, in strips or tiles, and formats that
/// libtiff converts to RGBA (1 to 4 bits, YCbCr, CIE L*a*b*). Throws an Error with the problem for
/// a corrupt or truncated file, several pages (except reduced ones and masks), floating-point
/// samples, and more than `max_pixels`.
HostArray decode_tiff(std::span<const std::byte> bytes, int64_t max_pixels,
                      const Background& background);

}  // namespace kinema::media
