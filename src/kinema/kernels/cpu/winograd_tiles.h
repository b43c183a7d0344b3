#pragma once

#include <algorithm>
#include <cstdint>

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/rounding.h"
#include "kinema/kernels/cpu/vector_loop.h"

/// What winograd.cpp and winograd_gradient.cpp share: tiles of 2 x 2 results and the 4 x 4 inputs
/// that each reads, as the points at which channels are multiplied.
namespace kinema::kernels {

constexpr int64_t kPoints = 16;  // products of a tile: 4 x 4

/// With fewer channels or tiles, bringing them and kernels to points takes what the products save.
constexpr int64_t kFewChannels = 96;
constexpr int64_t kFewTiles = 256;

/// One image of memory, and what lies around it, which is zeros.
struct Plane {
  DType dtype;
  const char* data;
  int64_t start;  // elements before it
  int64_t rows, columns;

  /// `width` pixels of a row from a column on.
  void read(int64_t row, int64_t column, int64_t width, float* to) const {
    const int64_t left = std::clamp<int64_t>(-column, 0, width);
    const int64_t right = std::clamp<int64_t>(columns - column, left, width);
    if (row < 0 || row >= rows) {
      std::fill_n(to, width, 0.0F);
      return;
    }
    std::fill_n(to, left, 0.0F);
    read_floats(dtype, data, start + row * columns + column + left, right - left, to + left);
    std::fill_n(to + right, width - right, 0.0F);
  }
};

/// The tiles of an image, row by row.
struct Tiles {
  int64_t rows, columns;

  Tiles(int64_t height, int64_t width) : rows(ceil_div(height, 2)), columns(ceil_div(width, 2)) {}
  int64_t count() const { return rows * columns; }

  /// Calls of `segment(row, column, at, size)` for the tiles from `first` to `end`: neighbours of
  /// one row, of which the first one is the tile first + at.
  void for_segments(int64_t first, int64_t end, const auto& segment) const {
    for (int64_t i = first; i < std::min(end, count());) {
      const int64_t column = i % columns;
      const int64_t size = std::min({columns - column, end - i, count() - i});
      segment(i / columns, column, i - first, size);
      i += size;
    }
  }
};

/// B^T d B of `tiles` neighbours, whose inputs are four lines of 2 tiles + 2 pixels, which it
/// changes; point i of tile t goes to points[i step + t].
struct InputPoints {
  [[gnu::always_inline]] static void run(float* lines, int64_t line, int64_t tiles, float* points,
                                         int64_t step) {
    float* a = lines;
    float* b = a + line;
    float* c = b + line;
    float* d = c + line;
#pragma omp simd
    for (int64_t i = 0; i < line; ++i) {
      const float x = a[i], y = b[i], z = c[i], u = d[i];
      a[i] = x - z;
      b[i] = y + z;
      c[i] = z - y;
      d[i] = y - u;
    }
    for (int64_t row = 0; row < 4; ++row) {
      const float* x = lines + row * line;
      float* p = points + 4 * row * step;
      float* q = p + step;
      float* r = q + step;
      float* s = r + step;
#pragma omp simd
      for (int64_t t = 0; t < tiles; ++t) {
        const float d0 = x[2 * t], d1 = x[2 * t + 1], d2 = x[2 * t + 2], d3 = x[2 * t + 3];
        p[t] = d0 - d2;
        q[t] = d1 + d2;
        r[t] = d2 - d1;
        s[t] = d1 - d3;
      }
    }
  }
};

/// Points of the tiles from `first` to `end` of an image, the first tile of which reads from `row`
/// and `column` on: points[i step + t]. `lines` has room for 8 (columns + 1) floats.
inline void input_points(const Plane& image, const Tiles& tiles, int64_t row, int64_t column,
                         int64_t first, int64_t end, float* lines, float* points, int64_t step) {
  tiles.for_segments(first, end, [&](int64_t y, int64_t x, int64_t at, int64_t size) {
    const int64_t width = 2 * size + 2;
    for (int64_t i = 0; i < 4; ++i) {
      image.read(2 * y + row + i, 2 * x + column, width, lines + i * width);
    }
    vector_loop<InputPoints>(lines, width, size, points + at, step);
  });
}

}  // namespace kinema::kernels
