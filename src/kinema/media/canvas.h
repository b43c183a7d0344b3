#pragma once

// Private to the module: an image to draw into.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kinema/core/host_array.h"

namespace kinema::media {

/// u8 [height, width, 3]; drawing outside of it has no effect.
struct Canvas {
  HostArray image;
  int64_t height;
  int64_t width;

  Canvas(int64_t h, int64_t w, uint8_t level)
      : image(Shape{DType::U8, {h, w, 3}}), height(h), width(w) {
    std::ranges::fill(image.as<uint8_t>(), level);
  }
  void set(int64_t y, int64_t x, const uint8_t* rgb) {
    if (y >= 0 && y < height && x >= 0 && x < width) {
      std::memcpy(image.as<uint8_t>().data() + (y * width + x) * 3, rgb, 3);
    }
  }
  /// Blends in a grey level, with `share` of 255.
  void blend(int64_t y, int64_t x, uint8_t level, int share) {
    if (y >= 0 && y < height && x >= 0 && x < width) {
      uint8_t* pixel = image.as<uint8_t>().data() + (y * width + x) * 3;
      for (int c = 0; c < 3; ++c) {
        pixel[c] = static_cast<uint8_t>((level * share + pixel[c] * (255 - share) + 127) / 255);
      }
    }
  }
};

/// Draws a letter of 3 x 5 blocks of `size` pixels per side, in upper case; characters that are not
/// in the small table stay blank.
void draw_small_letter(Canvas& canvas, int64_t top, int64_t left, int64_t size, char letter,
                       uint8_t level);

}  // namespace kinema::media
