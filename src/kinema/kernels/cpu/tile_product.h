#pragma once

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/matrix_product.h"
#include "kinema/kernels/cpu/strided_dot.h"

namespace kinema::kernels {

/// Whether products of the dtype are made in the processor's matrix tiles: BF16 with AMX.
bool uses_tiles(DType in);

/// Whether a product is made by shared_tile_product(): one matrix of whole tiles (amx_product.h),
/// c by rows.
bool has_shared_tiles(const StridedDot& dot, DType in);

/// c = a b or a b + bias, on the calling thread and others, of any number of rows. b is packed once
/// for all of them, 16 MB of it at a time; c goes to memory as whole lines. Sums are added in the
/// same order with any number of threads.
void shared_tile_product(const StridedDot& dot, DType out, const char* a, const char* b, char* c,
                         const float* bias, int64_t threads, const ParallelFor& parallel_for);

/// Rows of one call of multiply_in_tiles() at most, which packs b for all of them.
inline constexpr int64_t kTileRows = 2048;

/// c = a b or a b + bias, as multiply_alone, of any number of columns and at most kTileRows rows,
/// for all other products in tiles. oneDNN makes them so only where the rows of the result lie one
/// behind the other, and writes them by 64 columns, each row's in a page of its own: so the results
/// of wide products are made in a buffer, and go to memory as whole lines.
void multiply_in_tiles(const StridedDot& dot, DType in, DType out, const char* a, const char* b,
                       char* c, const float* bias);

}  // namespace kinema::kernels
