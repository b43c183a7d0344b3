#include "kinema/nn/conv.h"

#include <span>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"

namespace kinema::nn {

Conv2d::Conv2d(const Params& params, int64_t in, int64_t out, int64_t kernel, const Init& init)
    : kernel_(kernel),
      weight_(params.weight("weight", {out, in, kernel, kernel}, {"conv_out", "", "", ""}, init)),
      bias_(params.weight("bias", {out}, {""}, Init::zeros())) {}

Tensor Conv2d::operator()(Tensor x, Padding padding, int64_t stride, Precision precision) const {
  const std::pair<int64_t, int64_t> pad{padding.before, padding.after};
  const Tensor y =
      convolution(x, as(weight_, x.dtype()),
                  {.strides = {stride, stride}, .pad = {pad, pad}, .precision = precision});
  const Tensor wide = widened(y);
  return as(wide + as(reshape(bias_, {bias_.dim(0), 1, 1}), wide.dtype()), x.dtype());
}

GroupNorm::GroupNorm(const Params& params, int64_t channels, int64_t groups, double eps)
    : groups_(groups),
      eps_(eps),
      weight_(params.weight("weight", {channels}, {""}, Init::ones())),
      bias_(params.weight("bias", {channels}, {""}, Init::zeros())) {}

Tensor GroupNorm::normed(Tensor x) const {
  const Dims& dims = x.shape().dims;
  check(dims.size() >= 2 && dims[1] % groups_ == 0,
        "[norm] x is {} but its channels must be a multiple of {} groups", to_string(x.shape()),
        groups_);
  const Tensor wide = widened(x);
  const Tensor y = reshape(layer_norm(reshape(wide, {dims[0], groups_, -1}), eps_), dims);
  Dims per_channel(dims.size() - 1, 1);
  per_channel[0] = dims[1];
  const auto along_channels = [&](Tensor of) { return reshape(as(of, wide.dtype()), per_channel); };
  return y * along_channels(weight_) + along_channels(bias_);
}

Tensor GroupNorm::operator()(Tensor x) const { return as(normed(x), x.dtype()); }

Tensor GroupNorm::activated(Tensor x) const { return as(silu(normed(x)), x.dtype()); }

namespace {

/// Pixels of one axis, each the one at floor(i from / to).
Tensor resize_axis(Tensor x, int64_t axis, int64_t to) {
  const int64_t from = x.dim(axis);
  if (from == to) {
    return x;
  }
  if (to % from == 0) {
    Dims spread = x.shape().dims;
    spread.insert(spread.begin() + axis + 1, to / from);
    Dims result = x.shape().dims;
    result[static_cast<size_t>(axis)] = to;
    return reshape(broadcast_to(expand_dims(x, Axis(axis + 1)), spread), result);
  }
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < to; ++i) {
    ids.push_back(static_cast<int32_t>(i * from / to));
  }
  const Tensor table =
      constant(x.graph(), {DType::S32, {to}}, std::as_bytes(std::span<const int32_t>(ids)));
  std::vector<int64_t> front{axis};
  std::vector<int64_t> back;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != axis) {
      front.push_back(i);
    }
    back.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
  }
  return transpose(take(transpose(x, front), table), back);
}

}  // namespace

Tensor resize_nearest(Tensor x, int64_t rows, int64_t columns) {
  check(x.rank() == 4, "[resize] x is {} but must be [b, c, h, w]", to_string(x.shape()));
  return resize_axis(resize_axis(x, 2, rows), 3, columns);
}

}  // namespace kinema::nn
