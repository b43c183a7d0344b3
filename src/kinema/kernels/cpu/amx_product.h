#pragma once

#include <cstdint>

namespace kinema::kernels {

/// BF16 products in the processor's matrix tiles (AMX); requires isa() == Isa::Amx. A tile has 16
/// rows of 64 bytes: 16 x 32 elements of a, 32 x 16 of b with neighbours in k adjacent, or 16 x 16
/// sums.
inline constexpr int64_t kTileHeight = 16;
inline constexpr int64_t kTileDepth = 32;
inline constexpr int64_t kTileColumns = 16;
/// Block size in k: a pair of b's tile columns stays in L1, a in L2.
inline constexpr int64_t kPartDepth = 512;

/// Whether k and n are whole tiles of b; any number of rows will do.
constexpr bool fits_tiles(int64_t k, int64_t n) {
  return k % kTileDepth == 0 && n % kTileColumns == 0;
}

/// Copies a, m x k, with element strides a_m and a_k, one of which is 1, to dense rows. Where a_k
/// is not 1, it must consist of whole tiles (16 x 32).
void copy_rows(const uint16_t* a, int64_t m, int64_t k, int64_t a_m, int64_t a_k, uint16_t* to);

/// Packs b, k x n, with element strides b_k and b_n, one of which is 1, as tiles: for each pair of
/// tile columns all tiles along k. `to` holds k n elements and is aligned to a cache line.
void pack_tiles(const uint16_t* b, int64_t k, int64_t n, int64_t b_k, int64_t b_n, uint16_t* to);

/// c = a b, or c + a b: rows of a are a_m elements apart, rows of c (F32) c_m.
void multiply_tiles(int64_t m, int64_t k, int64_t n, const uint16_t* a, int64_t a_m,
                    const uint16_t* packed, float* c, int64_t c_m, bool adds);

}  // namespace kinema::kernels
