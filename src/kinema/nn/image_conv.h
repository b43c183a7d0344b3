#pragma once

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// A convolution over images [b, rows, columns, c] with `kernel` [k, k, in, out] and `bias` [out],
/// as JAX programs store them. Zeros are added so that an image keeps its size, divided or
/// multiplied by the stride (padding "SAME").
class ImageConv {
 public:
  /// NONE keeps the size; DOWN halves it by a stride of 2, rounding up; UP doubles it: each pixel
  /// is put at the odd position of its 2 x 2 block, the others being zero, before a convolution of
  /// stride 1.
  enum class Resize : uint8_t { NONE, DOWN, UP };

  ImageConv(const Params& params, int64_t in, int64_t out, int64_t size,
            Resize resize = Resize::NONE, double scale = 1.0);

  /// In x's dtype, which the kernel is rounded to; the bias is added in F32 at least, before the
  /// one rounding.
  Tensor operator()(Tensor x, Precision precision) const;

 private:
  int64_t size_;
  Resize resize_;
  Tensor kernel_;
  Tensor bias_;
};

/// The largest of each 2 x 2 pixels: [b, rows, columns, c], both even -> half of both. Equal pixels
/// share the gradient.
Tensor max_pool(Tensor x);

/// Each pixel as 2 x 2 equal ones: [b, rows, columns, c] -> twice of both.
Tensor repeat_pixels(Tensor x);

}  // namespace kinema::nn
