#pragma once

#include <cstdint>

namespace kinema::kernels {

/// Products of BF16 by the processor's matrix tiles (AMX), for isa() == Isa::Amx alone. A tile has
/// 16 rows of 64 bytes: 16 x 32 of a, 32 x 16 of b with neighbours in k beside each other, 16 x 16
/// sums.
inline constexpr int64_t kTileHeight = 16;
inline constexpr int64_t kTileDepth = 32;
inline constexpr int64_t kTileColumns = 16;
/// Of k at a time: a pair of columns of b stays in the first cache, a in the second.
inline constexpr int64_t kPartDepth = 512;

/// Whether a product is one of whole tiles of b: any number of rows.
constexpr bool is_of_tiles(int64_t k, int64_t n) {
  return k % kTileDepth == 0 && n % kTileColumns == 0;
}

/// a, m x k, whose elements lie a_m and a_k apart, one of which is 1, as dense rows: of whole tiles
/// (16 x 32) where a_k is not 1.
void copy_rows(const uint16_t* a, int64_t m, int64_t k, int64_t a_m, int64_t a_k, uint16_t* to);

/// b, k x n, whose elements lie b_k and b_n apart, one of which is 1, as tiles: those of k after
/// each other for each pair of columns of tiles. `to` has k n elements, on a line of the cache.
void pack_tiles(const uint16_t* b, int64_t k, int64_t n, int64_t b_k, int64_t b_n, uint16_t* to);

/// c = a b, or c + a b: a of m rows of k, a_m elements apart, c of F32 in rows c_m apart.
void multiply_tiles(int64_t m, int64_t k, int64_t n, const uint16_t* a, int64_t a_m,
                    const uint16_t* packed, float* c, int64_t c_m, bool adds);

}  // namespace kinema::kernels
