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

/// y[b, o, p] = sum over c, k of x[b, c, p stride + k dilation - low] w[o, c, k] for dense arrays x
/// [b, g c, d, h, w], w [g o, c, d, h, w], y [b, g o, d, h, w]; x is padded with zeros. With fewer
/// spatial axes the leading ones have size 1.
struct ConvolutionPlan {
  using Axes = std::array<int64_t, 3>;  // frames, rows, columns
  int64_t batch, groups;
  int64_t in, out;  // channels of one group
  Axes x, w, y;
  Axes stride, low, dilation;
  /// w is the frames from `first` on of kernels stored with `stored` frames.
  int64_t stored, first;

  double flops() const;
};

/// The most taps of a kernel. A larger one belongs to a kernel gradient, with few channels to sum
/// over (kernel_gradient.h).
constexpr int64_t kLargestKernel = 343;

/// The plan of a convolution. Empty if it has more than three spatial axes, dilates x, has an empty
/// operand, or has a kernel as large as an image but is not a kernel gradient.
std::optional<ConvolutionPlan> convolution_plan(const Dims& x, const Dims& w, const Dims& y,
                                                const ConvolutionAttrs& attrs);

/// Whether the plan has a fast implementation for this processor and dtype.
bool has_fast_convolution(const ConvolutionPlan& plan, DType dtype);

/// Operations fused into the convolution: on x as it is read, on y before it is rounded; nullptr:
/// none. Kernel gradients support neither.
struct ConvolutionFusion {
  const ActivatedChannel* channels = nullptr;  // for x: one per sample and channel of all groups
  const float* bias = nullptr;                 // [g o]
};

/// Runs the plan through oneDNN, or by a kernel of our own where that is faster (winograd.h,
/// tile_convolution.h). `w` is the stored kernels; all operands of `dtype` (F32 or BF16), sums in
/// F32. On a processor without BF16 products, tiles and packed weights are F32, widened when read
/// and rounded when written. Every element is summed in the same order, whatever the number of
/// threads and frames.
///
/// Tiles of the result are computed one by one, channels last, in small buffers per thread. Beyond
/// these only packed weights need memory: all of them, or with a single tile only those in use.
/// Throws an Error when oneDNN refuses.
void convolution(const ConvolutionPlan& plan, DType dtype, const void* x, const void* w, void* y,
                 const ParallelFor& parallel_for, const ConvolutionFusion& with = {});

/// The plan as the attribute `plan` of a custom call, and back.
std::vector<int64_t> to_words(const ConvolutionPlan& plan);
ConvolutionPlan convolution_from_words(const int64_t* words, int64_t count);

}  // namespace kinema::kernels
