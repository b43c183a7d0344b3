#pragma once

#include "kinema/kernels/cpu/convolution.h"

namespace kinema::kernels {

/// True for BF16 on a processor with matrix tiles (AMX), whole tiles of channels, and rows and
/// columns without stride or dilation that fill their tiles. It depends only on rows, columns and
/// channels, not on frames or batch.
bool is_tile_convolution(const ConvolutionPlan& plan, DType dtype);

/// convolution() by amx_product.h: y[o, p] = sum over taps of w[o, c] x[c, p + tap], one matrix
/// product per tap, so that channels stay first, as in memory. An input row is packed once per
/// kernel column and shared by all kernel rows.
void tile_convolution(const ConvolutionPlan& plan, DType dtype, const void* x, const void* w,
                      void* y, const ParallelFor& parallel_for, const ConvolutionFusion& with);

}  // namespace kinema::kernels
