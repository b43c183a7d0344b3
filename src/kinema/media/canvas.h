#pragma once

// Private to the room: pictures that others are put together in.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kinema/core/host_array.h"

namespace kinema::media {

/// u8 [height, width, 3]; what is drawn outside of it is lost.
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
  /// Grey of a level, of which `share` of 255 is seen.
  void blend(int64_t y, int64_t x, uint8_t level, int share) {
    if (y >= 0 && y < height && x >= 0 && x < width) {
      uint8_t* pixel = image.as<uint8_t>().data() + (y * width + x) * 3;
      for (int c = 0; c < 3; ++c) {
        pixel[c] = static_cast<uint8_t>((level * share + pixel[c] * (255 - share) + 127) / 255);
      }
    }
  }
};

/// A letter of 3 x 5 blocks of `size` pixels a side, capitals for small ones; what the small table
/// has not is left blank.
void draw_small_letter(Canvas& canvas, int64_t top, int64_t left, int64_t size, char letter,
                       uint8_t level);

}  // namespace kinema::media
