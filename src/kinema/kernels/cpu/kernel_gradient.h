#pragma once

#include "kinema/kernels/cpu/convolution.h"

namespace kinema::kernels {

/// Whether a plan is the gradient with respect to a convolution's kernels, itself a convolution
/// with a kernel as large as an image and a result as small as a kernel
/// (graph/ops/convolution.cpp):
///
///   y[c, o, k] = sum over b, p of x[c, b, p + k - low] w[o, b, p]
///
/// for dense arrays x [c, b, ...], w [o, b, ...] and y [c, o, taps]: the plan's batch is c, its
/// `in` the batch of images. False with strides, dilation, groups or few channels.
bool is_kernel_gradient(const ConvolutionPlan& plan);

/// One matrix product over channels per tap, on copies of both operands padded so that a tap is an
/// offset; or winograd_kernel_gradient() for 3 x 3 kernels where products are computed in F32. Sums
/// are F32, rounded once; every element is summed in the same order, whatever the number of
/// threads. Throws a dnnl::error when oneDNN refuses.
void kernel_gradient(const ConvolutionPlan& plan, DType dtype, const void* x, const void* w,
                     void* y, const ParallelFor& parallel_for);

}  // namespace kinema::kernels
