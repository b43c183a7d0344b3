#pragma once

// Private to the module: orientation of pictures.

#include <cstddef>
#include <span>

#include "kinema/core/host_array.h"

namespace kinema::media {

/// Turns u8 [f, h, w, 3], stored with Exif's orientation 1 to 8, upright (CIPA DC-008, tag 0x0112);
/// other numbers mean 1.
HostArray upright(HostArray frames, int orientation);

/// True if upright() exchanges height and width.
inline bool lies_on_its_side(int orientation) { return orientation >= 5 && orientation <= 8; }

/// The Exif orientation that is nearest to a display matrix of ISO/IEC 14496-12 (tkhd), given by
/// the numbers a, b, c, d of x' = a x + c y, y' = b x + d y.
int matrix_orientation(double a, double b, double c, double d);

/// The orientation of a PNG's eXIf chunk, else of its XMP text; 1 if it has neither.
int png_orientation(std::span<const std::byte> file);

/// The orientation in an Exif block (after the marker `Exif\0\0`); 0 if it has none or is corrupt.
int exif_orientation(std::span<const std::byte> block);

/// The `tiff:Orientation` of an XMP packet (ISO 16684-1), which is used if Exif has none; 0 if it
/// has none.
int xmp_orientation(std::span<const std::byte> packet);

}  // namespace kinema::media
