#pragma once

#include "kinema/kernels/cpu/convolution.h"

namespace kinema::kernels {

/// Whether a plan is the gradient of a convolution's kernels, which is a convolution with a kernel
/// as large as an image, and a result as small as a kernel (graph/ops/convolution.cpp):
///
///   y[c, o, k] = sum over b, p of x[c, b, p + k - low] w[o, b, p]
///
/// on dense arrays x [c, b, ...], w [o, b, ...] and y [c, o, taps]: the plan's batch is c, its `in`
/// the batch of images. False with strides, dilation, groups or few channels.
bool is_kernel_gradient(const ConvolutionPlan& plan);

/// One matrix product of channels for each tap, on copies of both operands whose rows and images
/// lie as far apart as the sums reach, so that a tap is an offset; or, where products are computed
/// in F32 and kernels are 3 x 3, winograd_kernel_gradient(). Sums are F32 and rounded once; every
/// element is summed in the same order whatever the number of threads. Throws a dnnl::error when
/// oneDNN refuses.
void kernel_gradient(const ConvolutionPlan& plan, DType dtype, const void* x, const void* w,
                     void* y, const ParallelFor& parallel_for);

}  // namespace kinema::kernels
