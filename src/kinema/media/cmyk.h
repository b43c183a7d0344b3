#pragma once

// Private to the module.

#include <algorithm>
#include <cstdint>

namespace kinema::media {

/// A channel of RGB from its ink (cyan for red, ...) and the black ink, both from 0 (none) to 255,
/// as in Pillow's `convert("RGB")`: w - ink w / 255, rounded, with w = 255 - black.
inline uint8_t from_inks(int ink, int black) {
  const int white = 255 - black;
  const int product = ink * white + 128;
  const int taken = (product + (product >> 8)) >> 8;
  return static_cast<uint8_t>(std::max(0, white - taken));
}

}  // namespace kinema::media
