#pragma once

#include "kinema/nn/conv.h"

namespace kinema::unet {

/// A convolution with stride 2 and zero padding: height and width are halved, rounded up.
class Downsample {
 public:
  Downsample(const nn::Params& params, int64_t channels)
      : conv_(params / "conv", channels, channels, 3) {}

  Tensor operator()(Tensor x, Precision precision) const { return conv_(x, {1, 1}, 2, precision); }

 private:
  nn::Conv2d conv_;
};

/// Nearest-neighbour resize, then a convolution.
class Upsample {
 public:
  Upsample(const nn::Params& params, int64_t channels)
      : conv_(params / "conv", channels, channels, 3) {}

  /// To `rows` x `columns`, the size of the level above, which may be odd.
  Tensor operator()(Tensor x, int64_t rows, int64_t columns, Precision precision) const {
    return conv_(nn::resize_nearest(x, rows, columns), precision);
  }

 private:
  nn::Conv2d conv_;
};

}  // namespace kinema::unet
