#pragma once

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/matrix_product.h"
#include "kinema/kernels/cpu/strided_dot.h"

namespace kinema::kernels {

/// Whether products of the dtype use the processor's matrix tiles: BF16 with AMX.
bool uses_tiles(DType in);

/// Whether shared_tile_product() computes the product: one matrix of whole tiles (amx_product.h), c
/// row-major.
bool has_shared_tiles(const StridedDot& dot, DType in);

/// c = a b or a b + bias, on the calling thread and others, for any number of rows. b is packed
/// once for all of them, 16 MB at a time; c is written in whole cache lines. The summation order
/// does not depend on the number of threads.
void shared_tile_product(const StridedDot& dot, DType out, const char* a, const char* b, char* c,
                         const float* bias, int64_t threads, const ParallelFor& parallel_for);

/// The most rows in one call of multiply_in_tiles(), which packs b for all of them.
inline constexpr int64_t kTileRows = 2048;

/// c = a b or a b + bias, as multiply_single_threaded, for any number of columns and at most
/// kTileRows rows; for all other tile products. oneDNN uses tiles only for contiguous result rows,
/// and writes 64 columns at a time, each row in another page. Wide results are therefore computed
/// in a buffer and written in whole cache lines.
void multiply_in_tiles(const StridedDot& dot, DType in, DType out, const char* a, const char* b,
                       char* c, const float* bias);

}  // namespace kinema::kernels
