#include "kinema/kernels/cpu/panels.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>

#include "kinema/kernels/cpu/isa.h"

namespace kinema::kernels {
namespace {

/// c[rows, columns] = or += a b over `depth`, for panels a [depth, rows] and b [depth, columns].
using MicroKernel = void (*)(int64_t depth, const float* a, const float* b, float* c, int64_t c_row,
                             bool add);

constexpr int64_t kMostTile = 8 * 48;

[[gnu::target("avx2,fma")]] void multiply_6x16(int64_t depth, const float* a, const float* b,
                                               float* c, int64_t c_row, bool add) {
  constexpr int kTileRows = 6;
  __m256 sums[kTileRows][2];
#pragma GCC unroll 6
  for (int i = 0; i < kTileRows; ++i) {
    sums[i][0] = sums[i][1] = _mm256_setzero_ps();
  }
  for (int64_t k = 0; k < depth; ++k, a += kTileRows, b += 16) {
    const __m256 left = _mm256_load_ps(b);
    const __m256 right = _mm256_load_ps(b + 8);
#pragma GCC unroll 6
    for (int i = 0; i < kTileRows; ++i) {
      const __m256 factor = _mm256_broadcast_ss(a + i);
      sums[i][0] = _mm256_fmadd_ps(factor, left, sums[i][0]);
      sums[i][1] = _mm256_fmadd_ps(factor, right, sums[i][1]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kTileRows; ++i, c += c_row) {
    for (int j = 0; j < 2; ++j) {
      const __m256 sum = add ? _mm256_add_ps(_mm256_loadu_ps(c + 8 * j), sums[i][j]) : sums[i][j];
      _mm256_storeu_ps(c + 8 * j, sum);
    }
  }
}

[[gnu::target("avx512f")]] void multiply_8x48(int64_t depth, const float* a, const float* b,
                                              float* c, int64_t c_row, bool add) {
  constexpr int kTileRows = 8;
  __m512 sums[kTileRows][3];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
    sums[i][0] = sums[i][1] = sums[i][2] = _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < depth; ++k, a += kTileRows, b += 48) {
    const __m512 x = _mm512_load_ps(b);
    const __m512 y = _mm512_load_ps(b + 16);
    const __m512 z = _mm512_load_ps(b + 32);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
      const __m512 factor = _mm512_set1_ps(a[i]);
      sums[i][0] = _mm512_fmadd_ps(factor, x, sums[i][0]);
      sums[i][1] = _mm512_fmadd_ps(factor, y, sums[i][1]);
      sums[i][2] = _mm512_fmadd_ps(factor, z, sums[i][2]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i, c += c_row) {
    for (int j = 0; j < 3; ++j) {
      const __m512 sum = add ? _mm512_add_ps(_mm512_loadu_ps(c + 16 * j), sums[i][j]) : sums[i][j];
      _mm512_storeu_ps(c + 16 * j, sum);
    }
  }
}

template <typename T>
[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256 load8(const T* x) {
  if constexpr (sizeof(T) == 2) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  } else {
    return _mm256_loadu_ps(x);
  }
}

template <typename T>
float load1(const T* x) {
  if constexpr (sizeof(T) == 2) {
    return std::bit_cast<float>(static_cast<uint32_t>(*x) << 16);
  } else {
    return *x;
  }
}

/// Transposes an 8 x 8 block.
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void transpose8(__m256 (&x)[8]) {
  __m256 pairs[8];
  __m256 fours[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    pairs[2 * i] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
    pairs[2 * i + 1] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    x[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}

/// A panel of `width` lines, [depth, width]; lines from `lines` on are zeros. Each step along the
/// depth stores whole vectors and the next step overwrites their excess: a panel has kPanelSpare
/// spare floats at its end.
template <typename T>
[[gnu::target("avx2,fma")]] void pack_panel(const PanelOperand& from, int64_t lines, int64_t width,
                                            int64_t depth, float* to) {
  const auto* x = reinterpret_cast<const T*>(from.data);
  int64_t k = 0;
  if (lines == width && from.line_stride == 1) {
    // Vectors past the last line would read past the operand, so the loop below does the last
    // steps.
    const int64_t last = width % 8 == 0 ? depth : depth - 1;
    for (; k < last; ++k) {
      for (int64_t line = 0; line < width; line += 8) {
        _mm256_storeu_ps(to + k * width + line, load8(x + k * from.depth_stride + line));
      }
    }
  } else if (from.depth_stride == 1) {
    for (; k + 8 <= depth; k += 8) {
      for (int64_t line = 0; line < width; line += 8) {
        __m256 block[8];
#pragma GCC unroll 8
        for (int64_t i = 0; i < 8; ++i) {
          block[i] =
              line + i < lines ? load8(x + (line + i) * from.line_stride + k) : _mm256_setzero_ps();
        }
        transpose8(block);
#pragma GCC unroll 8
        for (int64_t i = 0; i < 8; ++i) {
          _mm256_storeu_ps(to + (k + i) * width + line, block[i]);
        }
      }
    }
  }
  for (; k < depth; ++k) {
    for (int64_t line = 0; line < width; ++line) {
      to[k * width + line] =
          line < lines ? load1(x + line * from.line_stride + k * from.depth_stride) : 0.0F;
    }
  }
}

}  // namespace

PanelTile panel_tile() { return isa() >= Isa::Avx512 ? PanelTile{8, 48} : PanelTile{6, 16}; }

void pack_panels(const PanelOperand& from, int64_t lines, int64_t width, int64_t depth, float* to) {
  for (int64_t line = 0; line < lines; line += width, to += width * depth) {
    const PanelOperand panel = from.at(line, 0);
    const int64_t count = std::min(width, lines - line);
    if (from.dtype == DType::BF16) {
      pack_panel<uint16_t>(panel, count, width, depth, to);
    } else {
      pack_panel<float>(panel, count, width, depth, to);
    }
  }
}

void multiply_panels(int64_t rows, int64_t columns, int64_t depth, const float* a, const float* b,
                     float* c, int64_t c_row, bool add) {
  const PanelTile tile = panel_tile();
  const MicroKernel multiply = isa() >= Isa::Avx512 ? multiply_8x48 : multiply_6x16;
  alignas(64) float whole[kMostTile];
  for (int64_t j = 0; j < columns; j += tile.columns) {
    for (int64_t i = 0; i < rows; i += tile.rows) {
      float* to = c + i * c_row + j;
      const int64_t height = std::min(tile.rows, rows - i);
      const int64_t width = std::min(tile.columns, columns - j);
      if (height == tile.rows && width == tile.columns) {
        multiply(depth, a + i * depth, b + j * depth, to, c_row, add);
        continue;
      }
      multiply(depth, a + i * depth, b + j * depth, whole, tile.columns, false);
      for (int64_t y = 0; y < height; ++y) {
        for (int64_t x = 0; x < width; ++x) {
          float& sum = to[y * c_row + x];
          sum = add ? sum + whole[y * tile.columns + x] : whole[y * tile.columns + x];
        }
      }
    }
  }
}

}  // namespace kinema::kernels
