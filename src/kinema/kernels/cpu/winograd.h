#pragma once

#include "kinema/kernels/cpu/convolution.h"

namespace kinema::kernels {

/// True for kernels of 3 x 3 pixels without stride or dilation of rows and columns, on images and
/// channels large enough to gain, where products are computed in F32. It depends only on rows,
/// columns and channels, not on frames or batch.
bool is_winograd(const ConvolutionPlan& plan, DType dtype);

/// convolution() by F(2 x 2, 3 x 3) of A. Lavin and S. Gray, "Fast Algorithms for Convolutional
/// Neural Networks" (2015): a tile of 2 x 2 results needs 16 multiplications per channel pair, the
/// direct sum 36.
///
///   y = A^T ((G g G^T) * (B^T d B)) A
///
/// for a tile d of 4 x 4 inputs and a kernel g, * summed over channels and frames as 16 matrix
/// products. All intermediate values are F32. The rounding error is relative to the magnitudes of
/// intermediate sums, a few times that of the direct sum.
void winograd_convolution(const ConvolutionPlan& plan, DType dtype, const void* x, const void* w,
                          void* y, const ParallelFor& parallel_for, const ConvolutionFusion& with);

/// The same for kernel_gradient(), with single frames.
bool is_winograd_kernel_gradient(const ConvolutionPlan& plan, DType dtype);

/// kernel_gradient() by the transposed algorithm, 16 multiplications for a 2 x 2 tile of w:
///
///   y = G^T ((A w A^T) * (B^T x B)) G,  * summed over tiles and images.
void winograd_kernel_gradient(const ConvolutionPlan& plan, DType dtype, const void* x,
                              const void* w, void* y, const ParallelFor& parallel_for);

}  // namespace kinema::kernels
