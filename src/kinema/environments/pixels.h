#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kinema/core/host_array.h"

namespace kinema::environments {

/// Pictures of a grid of cells, each a square of pixels.
struct CellCanvas {
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t cell = 1;  // pixels along a side

  /// Black, U8 [rows * cell, columns * cell, Channels].
  HostArray blank(int64_t channels) const {
    return HostArray(Shape{DType::U8, {rows * cell, columns * cell, channels}});
  }

  template <size_t Channels>
  void fill(HostArray& image, int64_t row, int64_t column,
            const std::array<uint8_t, Channels>& color) const {
    const std::span<uint8_t> pixels = image.as<uint8_t>();
    for (int64_t y = row * cell; y < (row + 1) * cell; ++y) {
      for (int64_t x = column * cell; x < (column + 1) * cell; ++x) {
        const auto at = static_cast<size_t>(y * columns * cell + x) * Channels;
        std::ranges::copy(color, pixels.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }
};

}  // namespace kinema::environments
