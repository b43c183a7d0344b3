#pragma once

#include <cstdint>

#include "kinema/core/host_array.h"

namespace kinema::media {

/// Edges (J. Canny, "A Computational Approach to Edge Detection", 1986) of a picture u8 [h, w, 3]:
/// u8 [h, w], 255 on edges. As OpenCV's Canny of a picture with three channels, with Sobel
/// derivatives of 3 x 3 pixels of the channel that changes most, and |dx| + |dy| as their size:
/// where that is more than `high` an edge begins, and it goes on while it is more than `low`.
HostArray canny(const HostArray& picture, int64_t low, int64_t high);

}  // namespace kinema::media
