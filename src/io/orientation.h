#pragma once

// Private to the room: pictures that lie on their side.

#include <cstddef>
#include <span>

#include "core/host_array.h"

namespace kinema::io {

/// u8 [f, h, w, 3] turned clockwise `turns` times by 90 degrees.
HostArray turned(HostArray frames, int turns);

/// u8 [f, h, w, 3], stored as Exif's orientation 1 to 8 says, upright again (CIPA DC-008, tag
/// 0x0112); other numbers stand for 1.
HostArray upright(HostArray frames, int orientation);

/// The orientation in an Exif block (what follows the marker `Exif\0\0`); 1 when it says none, or
/// is damaged.
int exif_orientation(std::span<const std::byte> block);

}  // namespace kinema::io
