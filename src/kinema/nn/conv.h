#pragma once

#include <optional>

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// Pixels added around an image before a convolution: above and left, below and right.
struct Padding {
  int64_t before = 0;
  int64_t after = 0;
};

/// Norm over groups of neighbouring channels and all pixels, with `weight` [c] and `bias` [c]
/// (arXiv:1803.08494).
class GroupNorm {
 public:
  GroupNorm(const Params& params, int64_t channels, int64_t groups, double eps);

  /// [b, c, ...] -> the same in x's dtype; computed in f32 (f64 for f64).
  Tensor operator()(Tensor x) const;

 private:
  friend class Conv2d;

  void check_channels(Tensor x) const;

  int64_t groups_;
  double eps_;
  Tensor weight_;
  Tensor bias_;
};

/// A trained low-rank change of a convolution's kernel (LoCon, arXiv:2309.14859): the product of a
/// convolution to r channels, `lora_A.weight` [r, in, k, k], and one of single pixels,
/// `lora_B.weight` [out, r, 1, 1], times `lora_scale` [r].
struct ConvAdapter {
  Tensor down;
  Tensor up;
  Tensor scale;

  /// Nothing if the convolution has none. Throws an Error for kinds other than LORA.
  static std::optional<ConvAdapter> open(const Params& params, int64_t in, int64_t out,
                                         int64_t kernel);
  /// x [b, in, h, w] -> [b, out, h', w'] in x's dtype.
  Tensor operator()(Tensor x, const ConvolutionAttrs& how) const;
};

/// A convolution over images [b, c, h, w] with `weight` [out, in, k, k] and `bias` [out], as torch
/// stores them.
class Conv2d {
 public:
  Conv2d(const Params& params, int64_t in, int64_t out, int64_t kernel,
         const Init& init = Init::xavier());

  /// [b, in, h, w] -> [b, out, h', w'] in x's dtype, to which the weight is rounded first. The bias
  /// is added in f32 or wider, before the result is rounded once.
  Tensor operator()(Tensor x, Precision precision) const {
    return (*this)(x, {kernel_ / 2, kernel_ / 2}, 1, precision);
  }
  Tensor operator()(Tensor x, Padding padding, int64_t stride, Precision precision) const;
  /// The convolution of silu(norm(x)). If the target has a kernel for it, silu(norm(x)) is not
  /// stored. The backward pass computes it again.
  Tensor operator()(const GroupNorm& norm, Tensor x, Precision precision) const;

 private:
  int64_t kernel_;
  Tensor weight_;
  Tensor bias_;
  std::optional<ConvAdapter> adapter_;
};

/// x [b, c, h, w] to `rows` x `columns` pixels: pixel i is the one at floor(i h / rows), as torch's
/// `interpolate(mode="nearest")`.
Tensor resize_nearest(Tensor x, int64_t rows, int64_t columns);

}  // namespace kinema::nn
