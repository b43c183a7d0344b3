#include "kinema/models/wan/fun_inputs.h"

#include "kinema/core/error.h"
#include "kinema/nn/linear.h"

namespace kinema::wan {
namespace {

/// A convolution over patches of 2 x 2, without overlap.
constexpr int64_t kPatch = 2;

/// Tiles of n x n pixels as channels, channel by channel and row by row: [b, c, h, w] -> [b, c n n,
/// h / n, w / n], as torch's pixel_unshuffle.
Tensor unshuffled(Tensor x, int64_t n) {
  const int64_t b = x.dim(0);
  const int64_t c = x.dim(1);
  const int64_t rows = x.dim(2) / n;
  const int64_t columns = x.dim(3) / n;
  const Tensor split = reshape(x, {b, c, rows, n, columns, n});
  return reshape(transpose(split, {0, 1, 3, 5, 2, 4}), {b, c * n * n, rows, columns});
}

}  // namespace

ReferenceTokens::ReferenceTokens(const nn::Params& root, const TransformerConfig& c)
    : conv_(root / "ref_conv", c.ref_conv_channels, c.dim(), kPatch) {}

Tensor ReferenceTokens::operator()(Tensor latents, DType dtype, Precision precision) const {
  const Tensor map = conv_(nn::as(squeeze(latents, Axis(2)), dtype), {0, 0}, kPatch, precision);
  return transpose(reshape(map, {map.dim(0), map.dim(1), map.dim(2) * map.dim(3)}), {0, 2, 1});
}

CameraAdapter::CameraAdapter(const nn::Params& root, const TransformerConfig& c)
    : shrink_(c.control_adapter_shrink),
      conv_(root / "control_adapter" / "conv",
            c.control_adapter_channels * c.control_adapter_shrink * c.control_adapter_shrink,
            c.dim(), kPatch),
      conv1_(root / "control_adapter" / "residual_blocks" / "0" / "conv1", c.dim(), c.dim(), 3),
      conv2_(root / "control_adapter" / "residual_blocks" / "0" / "conv2", c.dim(), c.dim(), 3) {}

Tensor CameraAdapter::operator()(Tensor rays, DType dtype, Precision precision) const {
  const int64_t b = rays.dim(0);
  const int64_t f = rays.dim(2);
  const Tensor frames = reshape(transpose(nn::as(rays, dtype), {0, 2, 1, 3, 4}),
                                {b * f, rays.dim(1), rays.dim(3), rays.dim(4)});
  const Tensor x = conv_(unshuffled(frames, shrink_), {0, 0}, kPatch, precision);
  const Tensor y = x + conv2_(maximum(conv1_(x, precision), 0.0), precision);
  return transpose(reshape(y, {b, f, y.dim(1), y.dim(2), y.dim(3)}), {0, 2, 1, 3, 4});
}

}  // namespace kinema::wan
