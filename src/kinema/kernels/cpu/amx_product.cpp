#include "kinema/kernels/cpu/amx_product.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kinema/kernels/cpu/rounding.h"

namespace kinema::kernels {
namespace {

constexpr int64_t kTile = kTileDepth * kTileColumns;  // elements of b
constexpr int64_t kLine = 64;                         // bytes
constexpr int64_t kPair = 2 * kTileColumns;

/// Tile registers: sums 0..3 (numbered by a's tile, then b's), a in 4 and 5, b in 6 and 7.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  std::array<uint8_t, 14> reserved{};
  std::array<uint16_t, 16> bytes{};
  std::array<uint8_t, 16> rows{};

  constexpr TileShapes(int64_t upper, int64_t lower) {
    for (size_t i = 0; i < 8; ++i) {
      bytes[i] = kLine;
      rows[i] = kTileHeight;
    }
    rows[0] = rows[1] = rows[4] = static_cast<uint8_t>(upper);
    rows[2] = rows[3] = rows[5] = static_cast<uint8_t>(lower);
  }
};

constexpr TileShapes kWhole(kTileHeight, kTileHeight);

/// Rows x Columns tiles of sums.
template <int Rows, int Columns>
[[gnu::target("amx-tile,amx-bf16"), gnu::always_inline]] inline void block(
    int64_t depth, const uint16_t* a, int64_t a_bytes, const uint16_t* b, float* c, int64_t c_bytes,
    bool adds) {
  constexpr int64_t kStep = kTile * Columns;
  const uint16_t* lower = a + kTileHeight * a_bytes / 2;
  float* c_lower = c + kTileHeight * c_bytes / 4;
  if (adds) {
    _tile_loadd(0, c, c_bytes);
    if constexpr (Columns > 1) _tile_loadd(1, c + kTileColumns, c_bytes);
    if constexpr (Rows > 1) _tile_loadd(2, c_lower, c_bytes);
    if constexpr (Rows > 1 && Columns > 1) _tile_loadd(3, c_lower + kTileColumns, c_bytes);
  } else {
    _tile_zero(0);
    if constexpr (Columns > 1) _tile_zero(1);
    if constexpr (Rows > 1) _tile_zero(2);
    if constexpr (Rows > 1 && Columns > 1) _tile_zero(3);
  }
  for (int64_t i = 0; i < depth; ++i) {
    _tile_loadd(6, b, kLine);
    _tile_loadd(4, a, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Columns > 1) {
      _tile_loadd(7, b + kTile, kLine);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (Rows > 1) {
      _tile_loadd(5, lower, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (Columns > 1) _tile_dpbf16ps(3, 5, 7);
    }
    a += kTileDepth;
    lower += kTileDepth;
    b += kStep;
  }
  _tile_stored(0, c, c_bytes);
  if constexpr (Columns > 1) _tile_stored(1, c + kTileColumns, c_bytes);
  if constexpr (Rows > 1) _tile_stored(2, c_lower, c_bytes);
  if constexpr (Rows > 1 && Columns > 1) _tile_stored(3, c_lower + kTileColumns, c_bytes);
}

/// All rows times one pair of b's tile columns, or times the last single one.
template <int Columns>
[[gnu::target("amx-tile,amx-bf16"), gnu::noinline]] void panel(int64_t m, int64_t k,
                                                               const uint16_t* a, int64_t a_m,
                                                               const uint16_t* b, float* c,
                                                               int64_t c_m, bool adds) {
  const int64_t depth = k / kTileDepth;
  const int64_t whole = m / (2 * kTileHeight) * (2 * kTileHeight);
  for (int64_t row = 0; row < whole; row += 2 * kTileHeight) {
    block<2, Columns>(depth, a + row * a_m, a_m * 2, b, c + row * c_m, c_m * 4, adds);
  }
  const int64_t left = m - whole;
  if (left == 0) {
    return;
  }
  const TileShapes shapes(std::min(left, kTileHeight), std::max<int64_t>(1, left - kTileHeight));
  _tile_loadconfig(&shapes);
  if (left > kTileHeight) {
    block<2, Columns>(depth, a + whole * a_m, a_m * 2, b, c + whole * c_m, c_m * 4, adds);
  } else {
    block<1, Columns>(depth, a + whole * a_m, a_m * 2, b, c + whole * c_m, c_m * 4, adds);
  }
  _tile_loadconfig(&kWhole);
}

using Words = uint32_t __attribute__((vector_size(64)));  // two BF16 each
using Half = uint16_t __attribute__((vector_size(32)));
using Lanes = std::make_index_sequence<16>;

/// Exchanges the off-diagonal blocks of two rows of blocks.
template <size_t kSize, size_t... kLane>
[[gnu::target("avx512f"), gnu::always_inline]] inline void exchange(
    Words& upper, Words& lower, std::index_sequence<kLane...> /*lanes*/) {
  const Words a = upper;
  upper = __builtin_shufflevector(a, lower, (kLane & kSize ? 16 + kLane - kSize : kLane)...);
  lower = __builtin_shufflevector(a, lower, (kLane & kSize ? 16 + kLane : kLane + kSize)...);
}

template <size_t kSize>
[[gnu::target("avx512f"), gnu::always_inline]] inline void exchange_blocks(Words* rows) {
  for (size_t i = 0; i < 16; ++i) {
    if ((i & kSize) == 0) {
      exchange<kSize>(rows[i], rows[i + kSize], Lanes());
    }
  }
}

/// Transposes 16 rows of 16 words.
[[gnu::target("avx512f"), gnu::always_inline]] inline void transpose(const uint16_t* from,
                                                                     int64_t row, uint16_t* to,
                                                                     int64_t to_row) {
  Words rows[16];
  for (size_t i = 0; i < 16; ++i) {
    std::memcpy(&rows[i], from + static_cast<int64_t>(i) * row, sizeof(Words));
  }
  exchange_blocks<8>(rows);
  exchange_blocks<4>(rows);
  exchange_blocks<2>(rows);
  exchange_blocks<1>(rows);
  for (size_t i = 0; i < 16; ++i) {
    std::memcpy(to + static_cast<int64_t>(i) * to_row, &rows[i], sizeof(Words));
  }
}

template <size_t... kLane>
[[gnu::target("avx512f,avx512bw"), gnu::always_inline]] inline auto neighbours(
    Half even, Half odd, std::index_sequence<kLane...> /*lanes*/) {
  return __builtin_shufflevector(even, odd, (kLane / 2 + kLane % 2 * 16)...);
}

/// Interleaves pairs of rows of 16 numbers.
[[gnu::target("avx512f,avx512bw"), gnu::always_inline]] inline void interleave(const uint16_t* from,
                                                                               int64_t row,
                                                                               uint16_t* to) {
  for (int64_t i = 0; i < kTileHeight; ++i, from += 2 * row, to += 2 * kTileColumns) {
    Half even, odd;
    std::memcpy(&even, from, sizeof(Half));
    std::memcpy(&odd, from + row, sizeof(Half));
    const auto pairs = neighbours(even, odd, std::make_index_sequence<32>());
    std::memcpy(to, &pairs, sizeof(pairs));
  }
}

}  // namespace

[[gnu::target("avx512f,avx512bw")]] void copy_rows(const uint16_t* a, int64_t m, int64_t k,
                                                   int64_t a_m, int64_t a_k, uint16_t* to) {
  if (a_k == 1) {
    for (int64_t i = 0; i < m; ++i) {
      std::memcpy(to + i * k, a + i * a_m, static_cast<size_t>(k) * sizeof(uint16_t));
    }
    return;
  }
  alignas(64) std::array<uint16_t, kTile> pairs;
  for (int64_t i = 0; i < m; i += kTileHeight) {
    for (int64_t at = 0; at < k; at += kTileDepth) {
      interleave(a + at * a_k + i, a_k, pairs.data());
      transpose(pairs.data(), kTileDepth, to + i * k + at, k);
    }
  }
}

[[gnu::target("avx512f,avx512bw")]] void pack_tiles(const uint16_t* b, int64_t k, int64_t n,
                                                    int64_t b_k, int64_t b_n, uint16_t* to) {
  for (int64_t column = 0; column < n; column += 2 * kTileColumns) {
    const int64_t columns = std::min<int64_t>(2, (n - column) / kTileColumns);
    for (int64_t at = 0; at < k; at += kTileDepth) {
      for (int64_t i = 0; i < columns; ++i, to += kTile) {
        const uint16_t* from = b + at * b_k + (column + i * kTileColumns) * b_n;
        if (b_k == 1) {
          transpose(from, b_n, to, kTileDepth);
        } else {
          interleave(from, b_k, to);
        }
      }
    }
  }
}

[[gnu::target("amx-tile,amx-bf16")]] void multiply_tiles(int64_t m, int64_t k, int64_t n,
                                                         const uint16_t* a, int64_t a_m,
                                                         const uint16_t* packed, float* c,
                                                         int64_t c_m, bool adds) {
  _tile_loadconfig(&kWhole);
  const int64_t pairs = n / kPair * kPair;
  const int64_t most = round_up(ceil_div(k, ceil_div(k, kPartDepth)), kTileDepth);
  for (int64_t at = 0; at < k; at += most) {
    const int64_t depth = std::min(most, k - at);
    const bool later = adds || at > 0;
    for (int64_t column = 0; column < pairs; column += kPair) {
      panel<2>(m, depth, a + at, a_m, packed + column * k + at * kPair, c + column, c_m, later);
    }
    if (pairs < n) {
      panel<1>(m, depth, a + at, a_m, packed + pairs * k + at * kTileColumns, c + pairs, c_m,
               later);
    }
  }
  _tile_release();
}

}  // namespace kinema::kernels
