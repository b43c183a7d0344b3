#pragma once

#include "kinema/nn/conv.h"

namespace kinema::unet {

/// Every second pixel of a convolution, zeros around the picture: sides are halved, rounded up.
class Downsample {
 public:
  Downsample(const nn::Params& params, int64_t channels)
      : conv_(params / "conv", channels, channels, 3) {}

  Tensor operator()(Tensor x, Precision precision) const { return conv_(x, {1, 1}, 2, precision); }

 private:
  nn::Conv2d conv_;
};

/// The nearest pixel, then a convolution.
class Upsample {
 public:
  Upsample(const nn::Params& params, int64_t channels)
      : conv_(params / "conv", channels, channels, 3) {}

  /// To so many rows and columns: those of the level above, which may be odd.
  Tensor operator()(Tensor x, int64_t rows, int64_t columns, Precision precision) const {
    return conv_(nn::resize_nearest(x, rows, columns), precision);
  }

 private:
  nn::Conv2d conv_;
};

}  // namespace kinema::unet
