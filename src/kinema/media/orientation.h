#pragma once

// Private to the room: pictures that lie on their side.

#include <cstddef>
#include <span>

#include "kinema/core/host_array.h"

namespace kinema::media {

/// u8 [f, h, w, 3], stored as Exif's orientation 1 to 8 says, upright again (CIPA DC-008, tag
/// 0x0112); other numbers stand for 1.
HostArray upright(HostArray frames, int orientation);

/// Whether upright() exchanges height and width.
inline bool lies_on_its_side(int orientation) { return orientation >= 5 && orientation <= 8; }

/// The Exif orientation that does what a display matrix of ISO/IEC 14496-12 (tkhd) asks of players:
/// the nearest of the eight, by the four numbers a, b, c, d of x' = a x + c y, y' = b x + d y.
int matrix_orientation(double a, double b, double c, double d);

/// The orientation of a PNG's eXIf chunk, else of its XMP text; 1 when there is neither.
int png_orientation(std::span<const std::byte> file);

/// The orientation in an Exif block (what follows the marker `Exif\0\0`); 0 when it has none, or is
/// damaged.
int exif_orientation(std::span<const std::byte> block);

/// The `tiff:Orientation` of an XMP packet (ISO 16684-1), which counts where Exif has none; 0 when
/// it has none.
int xmp_orientation(std::span<const std::byte> packet);

}  // namespace kinema::media
