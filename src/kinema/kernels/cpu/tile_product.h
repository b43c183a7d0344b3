#pragma once

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/strided_dot.h"

namespace kinema::kernels {

/// Products of BF16 in the processor's tiles (AMX). oneDNN makes them so only where the rows of the
/// result lie one behind the other, and writes them by 64 columns, each row's in a page of its own:
/// so the results of wide products are made in a buffer, and go to memory as whole lines.
bool uses_tiles(DType in);

/// Rows of one call at most, which packs b for all of them.
inline constexpr int64_t kTileRows = 2048;

/// c = a b or a b + bias, as multiply_alone, of any number of columns and at most kTileRows rows.
void multiply_in_tiles(const StridedDot& dot, DType in, DType out, const char* a, const char* b,
                       char* c, const float* bias);

}  // namespace kinema::kernels
