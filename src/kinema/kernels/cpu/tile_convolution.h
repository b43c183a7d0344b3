#pragma once

#include "kinema/kernels/cpu/convolution.h"

namespace kinema::kernels {

/// True for BF16 on a processor with matrix tiles (AMX), whole tiles of channels, and rows and
/// columns without stride or dilation that fill their tiles. It depends on rows, columns and
/// channels only, not on frames or batch.
bool is_tile_convolution(const ConvolutionPlan& plan, DType dtype);

/// convolution() by amx_product.h: y[o, p] = sum over taps of w[o, c] x[c, p + tap], a product of
/// matrices for each tap, so that channels stay in front as they lie in memory. A row that is read
/// is packed once for each column of the kernel, whatever its rows.
void tile_convolution(const ConvolutionPlan& plan, DType dtype, const void* x, const void* w,
                      void* y, const ParallelFor& parallel_for, const ConvolutionFusion& with);

}  // namespace kinema::kernels
