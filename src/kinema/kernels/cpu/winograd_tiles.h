#pragma once

#include <algorithm>
#include <cstdint>

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/group_norm.h"
#include "kinema/kernels/cpu/rounding.h"
#include "kinema/kernels/cpu/vector_loop.h"

/// Shared by winograd.cpp and winograd_gradient.cpp: tiles of 2 x 2 results and the 4 x 4 inputs of
/// each, transformed to the points at which channels are multiplied.
namespace kinema::kernels {

constexpr int64_t kPoints = 16;  // per tile: 4 x 4

/// With fewer channels or tiles the transforms cost what the products save.
constexpr int64_t kFewChannels = 96;
constexpr int64_t kFewTiles = 256;

/// One image in memory, padded with zeros.
struct Plane {
  DType dtype;
  const char* data;
  int64_t start;  // offset of the first element
  int64_t rows, columns;
  const ActivatedChannel* activated = nullptr;  // norm and SiLU applied to pixels as they are read

  /// Reads `width` pixels of a row from a column on.
  void read(int64_t row, int64_t column, int64_t width, float* to) const {
    const int64_t left = std::clamp<int64_t>(-column, 0, width);
    const int64_t right = std::clamp<int64_t>(columns - column, left, width);
    if (row < 0 || row >= rows) {
      std::fill_n(to, width, 0.0F);
      return;
    }
    std::fill_n(to, left, 0.0F);
    read_floats(dtype, data, start + row * columns + column + left, right - left, to + left);
    if (activated != nullptr) {
      activate(to + left, right - left, *activated);
    }
    std::fill_n(to + right, width - right, 0.0F);
  }
};

/// Tiles in a strip's row. Strips are as narrow as vectors and pages allow: the row of tiles below
/// reads half of the same inputs again while they are still cached.
constexpr int64_t kStrip = 32;
/// Inputs of such a row, plus the two pixels beyond its last tile.
constexpr int64_t kLine = 2 * kStrip + 2;

/// The tiles of an image: strips of columns, each stored row by row.
struct Tiles {
  int64_t rows, columns;
  int64_t strip;  // columns of each but the last one

  Tiles(int64_t height, int64_t width)
      : rows(ceil_div(height, 2)),
        columns(ceil_div(width, 2)),
        strip(ceil_div(columns, ceil_div(columns, kStrip))) {}
  int64_t count() const { return rows * columns; }

  /// Calls `segment(row, column, at, size)` for the tiles from `first` to `end`: adjacent tiles in
  /// one row and strip, whose first tile is first + at.
  void for_segments(int64_t first, int64_t end, const auto& segment) const {
    for (int64_t i = first; i < std::min(end, count());) {
      const int64_t left = i / (rows * strip) * strip;
      const int64_t width = std::min(strip, columns - left);
      const int64_t inside = i - left * rows;
      const int64_t column = inside % width;
      const int64_t size = std::min(width - column, end - i);
      segment(inside / width, left + column, i - first, size);
      i += size;
    }
  }
};

/// B^T d B of `tiles` adjacent tiles, whose inputs are four lines of 2 tiles + 2 pixels, kLine
/// apart; `rows` is scratch of the same size. Point i of tile t goes to points[i step + t].
struct InputPoints {
  [[gnu::always_inline]] static void run(const float* lines, float* rows, int64_t tiles,
                                         float* points, int64_t step) {
    const float* a = lines;
    const float* b = a + kLine;
    const float* c = b + kLine;
    const float* d = c + kLine;
#pragma omp simd
    for (int64_t i = 0; i < 2 * tiles + 2; ++i) {
      const float x = a[i], y = b[i], z = c[i], u = d[i];
      rows[i] = x - z;
      rows[kLine + i] = y + z;
      rows[2 * kLine + i] = z - y;
      rows[3 * kLine + i] = y - u;
    }
    for (int64_t row = 0; row < 4; ++row) {
      const float* x = rows + row * kLine;
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

/// Prefetches the memory that input_points() will read.
inline void expect_points(const Plane& image, const Tiles& tiles, int64_t row, int64_t column,
                          int64_t first, int64_t end) {
  constexpr int64_t kCacheLine = 64;
  const int64_t bytes = byte_size(image.dtype);
  tiles.for_segments(first, end, [&](int64_t y, int64_t x, int64_t, int64_t size) {
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t line = std::clamp<int64_t>(2 * y + row + i, 0, image.rows - 1);
      const char* from = image.data + (image.start + line * image.columns + 2 * x + column) * bytes;
      for (int64_t at = 0; at < (2 * size + 2) * bytes; at += kCacheLine) {
        __builtin_prefetch(from + at);
      }
    }
  });
}

/// Transforms the tiles from `first` to `end` of an image, whose first tile reads from `row` and
/// `column` on: points[i step + t].
inline void input_points(const Plane& image, const Tiles& tiles, int64_t row, int64_t column,
                         int64_t first, int64_t end, float* points, int64_t step) {
  float lines[4 * kLine];
  float rows[4 * kLine];
  int64_t last_row = -2, last_column = 0, last_size = 0;
  tiles.for_segments(first, end, [&](int64_t y, int64_t x, int64_t at, int64_t size) {
    const int64_t width = 2 * size + 2;
    int64_t known = 0;
    if (y == last_row + 1 && x == last_column && size == last_size) {
      known = 2;
      std::copy_n(lines + 2 * kLine, 2 * kLine, lines);
    }
    for (int64_t i = known; i < 4; ++i) {
      image.read(2 * y + row + i, 2 * x + column, width, lines + i * kLine);
    }
    last_row = y;
    last_column = x;
    last_size = size;
    vector_loop<InputPoints, const float*, float*>(lines, rows, size, points + at, step);
  });
}

}  // namespace kinema::kernels
