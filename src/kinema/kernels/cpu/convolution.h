#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/core/shape.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/cpu/group_norm.h"
#include "kinema/kernels/cpu/matrix_product.h"

namespace kinema::kernels {

/// y[b, o, p] = sum over c, k of x[b, c, p stride + k dilation - low] w[o, c, k] on dense arrays
/// x [b, g c, d, h, w], w [g o, c, d, h, w], y [b, g o, d, h, w]; zeros outside of x. Fewer spatial
/// axes have sizes of 1 in front.
struct ConvolutionPlan {
  using Axes = std::array<int64_t, 3>;  // frames, rows, columns
  int64_t batch, groups;
  int64_t in, out;  // channels of one group
  Axes x, w, y;
  Axes stride, low, dilation;
  /// w is the frames from `first` on of kernels that lie in memory with so many of them.
  int64_t stored, first;

  double flops() const;
};

/// Taps of a kernel; what is larger is a gradient of kernels, and has few channels to sum over
/// (kernel_gradient.h).
constexpr int64_t kLargestKernel = 343;

/// A convolution as the kernel does it; nothing when it has more than three spatial axes, zeros
/// between the elements of x, a kernel as large as an image that is not the gradient of one, or an
/// empty operand.
std::optional<ConvolutionPlan> convolution_plan(const Dims& x, const Dims& w, const Dims& y,
                                                const ConvolutionAttrs& attrs);

/// True when there is a fast implementation of the plan for this processor and dtype.
bool has_fast_convolution(const ConvolutionPlan& plan, DType dtype);

/// What happens to x as it is read, and to y before it is rounded; nothing where there is nullptr.
/// Kernel gradients take neither.
struct ConvolutionFusion {
  const ActivatedChannel* channels = nullptr;  // of x: one per sample and channel of all groups
  const float* bias = nullptr;                 // [g o]
};

/// Runs the plan through oneDNN, or by a kernel of our own where that is faster (winograd.h,
/// tile_convolution.h), `w` being the stored kernels, all operands of `dtype` (F32 or BF16), sums
/// in F32. Where the processor has no BF16 products, tiles and packed weights are F32, widened as
/// they are read and rounded as they are written. Every element is summed in the same order
/// whatever the number of threads and the number of frames.
///
/// Tiles of the result are worked on one by one, channels last, in small buffers of each thread;
/// beside them only packed weights take memory: all of them, or those that the threads are at where
/// there is a single tile. Throws an Error when oneDNN refuses.
void convolution(const ConvolutionPlan& plan, DType dtype, const void* x, const void* w, void* y,
                 const ParallelFor& parallel_for, const ConvolutionFusion& with = {});

/// The plan as the attribute `plan` of a custom call, and back.
std::vector<int64_t> to_words(const ConvolutionPlan& plan);
ConvolutionPlan convolution_from_words(const int64_t* words, int64_t count);

}  // namespace kinema::kernels
