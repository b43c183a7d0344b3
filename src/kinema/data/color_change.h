#pragma once

#include "kinema/core/host_array.h"
#include "kinema/core/threefry.h"

namespace kinema::data {

/// A change of a clip's colours with the distribution of kohya's color_aug: a third of the clips
/// are changed, half of these in hue, by at most 16 degrees, and half in gamma, by at most 5 %.
struct ColorChange {
  float hue = 0;    // degrees
  float gamma = 1;  // exponent of values in [0, 1]

  bool is_none() const { return hue == 0 && gamma == 1; }
};

/// Draws three numbers.
ColorChange draw_color_change(RandomStream& random);

/// Pixels f32 [3, f, h, w] in [-1, 1] with other colours. The hue turns at constant saturation and
/// value (HSV).
HostArray with_colors(HostArray pixels, const ColorChange& change);

}  // namespace kinema::data
