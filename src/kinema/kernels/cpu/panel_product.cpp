#include "kinema/kernels/cpu/panel_product.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "kinema/kernels/cpu/bf16_loops.h"
#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/isa.h"

// Panels as in K. Goto and R. van de Geijn, Anatomy of High-Performance Matrix Multiplication
// (2008): a block of b in the last-level cache, one of a in L2, a tile of c in registers.
namespace kinema::kernels {
namespace {

// Sizes of blocks: a's 192 KiB are about half of the smallest L2 (256 KiB to 2 MiB), and a panel of
// b with the tile's share of a stays in L1.
constexpr int64_t kDepth = 256;    // of k
constexpr int64_t kRows = 192;     // of a: a multiple of every tile
constexpr int64_t kColumns = 768;  // of b: a multiple of every tile
// Rows that share a packed block of b. Their sums lie close together until the last of k is added:
// rows of a wide result are pages apart, and a tile would touch as many.
constexpr int64_t kTallestSums = 1024;

/// c[rows, columns] = or += a b over `depth`, of panels a [depth, rows] and b [depth, columns].
using MicroKernel = void (*)(int64_t depth, const float* a, const float* b, float* c, int64_t c_row,
                             bool add);

struct Tile {
  int64_t rows, columns;
  MicroKernel multiply;
};

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

Tile tile() {
  return isa() >= Isa::Avx512 ? Tile{8, 48, multiply_8x48} : Tile{6, 16, multiply_6x16};
}

/// An operand as `lines` x `depth`: lines are a's rows or b's columns.
struct Operand {
  DType dtype;
  const char* data;
  int64_t line_stride, depth_stride;

  Operand at(int64_t line, int64_t depth) const {
    return {dtype, data + (line * line_stride + depth * depth_stride) * byte_size(dtype),
            line_stride, depth_stride};
  }
};

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

/// Rows become columns.
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

/// A panel of `width` lines, [depth, width]; those from `lines` on are zeros. Each step along the
/// depth is stored as whole vectors, the next one over what is too much: a panel has 8 floats to
/// spare behind it.
template <typename T>
[[gnu::target("avx2,fma")]] void pack_panel(const Operand& from, int64_t lines, int64_t width,
                                            int64_t depth, float* to) {
  const auto* x = reinterpret_cast<const T*>(from.data);
  int64_t k = 0;
  if (lines == width && from.line_stride == 1) {
    // Vectors past the last line would read past the operand, so the last steps are left to the
    // loop below.
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

/// Panels of `width` lines, one after the other.
void pack(const Operand& from, int64_t lines, int64_t width, int64_t depth, float* to) {
  for (int64_t line = 0; line < lines; line += width, to += width * depth) {
    const Operand panel = from.at(line, 0);
    const int64_t count = std::min(width, lines - line);
    if (from.dtype == DType::BF16) {
      pack_panel<uint16_t>(panel, count, width, depth, to);
    } else {
      pack_panel<float>(panel, count, width, depth, to);
    }
  }
}

/// c[rows, columns] = or += the packed blocks; tiles at the edges go by way of a whole one.
void multiply_blocks(const Tile& tile, int64_t rows, int64_t columns, int64_t depth, const float* a,
                     const float* b, float* c, int64_t c_row, bool add) {
  alignas(64) float whole[kMostTile];
  for (int64_t j = 0; j < columns; j += tile.columns) {
    for (int64_t i = 0; i < rows; i += tile.rows) {
      float* to = c + i * c_row + j;
      const int64_t height = std::min(tile.rows, rows - i);
      const int64_t width = std::min(tile.columns, columns - j);
      if (height == tile.rows && width == tile.columns) {
        tile.multiply(depth, a + i * depth, b + j * depth, to, c_row, add);
        continue;
      }
      tile.multiply(depth, a + i * depth, b + j * depth, whole, tile.columns, false);
      for (int64_t y = 0; y < height; ++y) {
        for (int64_t x = 0; x < width; ++x) {
          float& sum = to[y * c_row + x];
          sum = add ? sum + whole[y * tile.columns + x] : whole[y * tile.columns + x];
        }
      }
    }
  }
}

float* floats(Buffer& buffer, int64_t count) {
  return reinterpret_cast<float*>(buffer.at_least(static_cast<size_t>(count) * sizeof(float)));
}

/// One row of sums as the result has it.
void store(const float* sums, int64_t n, DType dtype, char* to) {
  if (dtype == DType::BF16) {
    to_bf16(sums, n, 1.0F, reinterpret_cast<uint16_t*>(to));
  } else {
    std::memcpy(to, sums, static_cast<size_t>(n) * sizeof(float));
  }
}

int64_t round_up(int64_t size, int64_t step) { return (size + step - 1) / step * step; }

}  // namespace

void panel_product(const StridedDot& dot, DType a_type, DType b_type, DType c_type, const char* a,
                   const char* b, char* c) {
  constexpr int64_t kSpare = 8;  // see pack_panel
  thread_local Buffer a_buffer;
  thread_local Buffer b_buffer;
  thread_local Buffer sums_buffer;
  const Tile tile = kernels::tile();
  const Operand left{a_type, a, dot.a_m, dot.a_k};
  const Operand right{b_type, b, dot.b_n, dot.b_k};
  const int64_t depth = std::min(dot.k, kDepth);
  const int64_t height = std::min(dot.m, kTallestSums);
  const int64_t width = std::min(dot.n, kColumns);
  float* a_block = floats(a_buffer, round_up(std::min(dot.m, kRows), tile.rows) * depth + kSpare);
  float* b_block = floats(b_buffer, round_up(width, tile.columns) * depth + kSpare);
  float* sums = floats(sums_buffer, height * width);
  for (int64_t row = 0; row < dot.m; row += height) {
    const int64_t rows = std::min(height, dot.m - row);
    for (int64_t column = 0; column < dot.n; column += width) {
      const int64_t columns = std::min(width, dot.n - column);
      for (int64_t k = 0; k < dot.k; k += depth) {
        const int64_t steps = std::min(depth, dot.k - k);
        pack(right.at(column, k), columns, tile.columns, steps, b_block);
        for (int64_t i = 0; i < rows; i += kRows) {
          const int64_t count = std::min(kRows, rows - i);
          pack(left.at(row + i, k), count, tile.rows, steps, a_block);
          multiply_blocks(tile, count, columns, steps, a_block, b_block, sums + i * width, width,
                          k > 0);
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        store(sums + i * width, columns, c_type,
              c + ((row + i) * dot.c_m + column) * byte_size(c_type));
      }
    }
  }
}

}  // namespace kinema::kernels
