#include "kinema/models/vae/resample.h"

#include "kinema/core/error.h"

namespace kinema::vae {
namespace {

Tensor repeat_rows_and_columns(Tensor x) {
  const Dims d = x.shape().dims;
  const Tensor spread = broadcast_in_dim(x, {d[0], d[1], d[2], d[3], 2, d[4], 2}, {0, 1, 2, 3, 5});
  return reshape(spread, {d[0], d[1], d[2], 2 * d[3], 2 * d[4]});
}

}  // namespace

Downsample::Downsample(const nn::Params& params, int64_t dim, bool time)
    : conv_(params / "resample" / "1", dim, dim, {0, 3, 3}) {
  if (time) {
    time_.emplace(params / "time_conv", dim, dim, Conv::Kernel{3, 1, 1});
  }
}

Tensor Downsample::operator()(Tensor x, History& history, const Compute& compute) const {
  x = conv_(x, {.stride = {1, 2, 2}, .after = 1, .units = history.units()}, compute);
  if (!time_) {
    return x;
  }
  // The first frame passes unchanged; later chunks read the last frame before them.
  if (history.first()) {
    history.keep(slice(x, Axis(2), x.dim(2) - 1, 1));
    return x;
  }
  return (*time_)(remember(history, x, 1), {.stride = {2, 1, 1}, .units = history.units()},
                  compute);
}

Upsample::Upsample(const nn::Params& params, int64_t in, int64_t out, bool time)
    : conv_(params / "resample" / "1", in, out, {0, 3, 3}) {
  if (time) {
    time_.emplace(params / "time_conv", in, 2 * in, Conv::Kernel{3, 1, 1});
  }
}

Tensor Upsample::in_space(Tensor x, const History& history, const Compute& compute) const {
  return conv_(repeat_rows_and_columns(x), {.before = 1, .after = 1, .units = history.units()},
               compute);
}

Tensor Upsample::in_time(Tensor x, History& history, const Compute& compute) const {
  if (!time_) {
    return x;
  }
  constexpr int64_t kPast = 2;
  if (history.first()) {
    // Neither doubled nor stored: the next chunk has zeros before it.
    Shape none = x.shape();
    none.dims[2] = kPast;
    history.keep(constant(x.graph(), 0.0, none));
    return x;
  }
  const Dims d = x.shape().dims;
  const Tensor joined = remember(history, x, kPast);
  // The channels hold the earlier of the two frames first.
  const Tensor y = reshape((*time_)(joined, {.units = history.units()}, compute),
                           {d[0], 2, d[1], d[2], d[3], d[4]});
  return reshape(transpose(y, {0, 2, 3, 1, 4, 5}), {d[0], d[1], 2 * d[2], d[3], d[4]});
}

Tensor average_down(Tensor x, int64_t out, Block block) {
  const int64_t missing = (block.time - x.dim(2) % block.time) % block.time;
  if (missing > 0) {
    x = pad(x, Axis(2), missing, 0);
  }
  const Dims d = x.shape().dims;
  const int64_t f = d[2] / block.time;
  const int64_t h = d[3] / block.space;
  const int64_t w = d[4] / block.space;
  Tensor y = reshape(x, {d[0], d[1], f, block.time, h, block.space, w, block.space});
  y = transpose(y, {0, 1, 3, 5, 7, 2, 4, 6});
  return mean(reshape(y, {d[0], out, d[1] * block.size() / out, f, h, w}), {2});
}

Tensor repeat_up(Tensor x, int64_t out, Block block, bool first) {
  const Dims d = x.shape().dims;
  const int64_t times = out * block.size() / d[1];
  Tensor y = broadcast_in_dim(x, {d[0], d[1], times, d[2], d[3], d[4]}, {0, 1, 3, 4, 5});
  y = reshape(y, {d[0], out, block.time, block.space, block.space, d[2], d[3], d[4]});
  y = transpose(y, {0, 1, 5, 2, 6, 3, 7, 4});
  y = reshape(y, {d[0], out, d[2] * block.time, d[3] * block.space, d[4] * block.space});
  const int64_t dropped = first ? block.time - 1 : 0;
  return dropped > 0 ? slice(y, Axis(2), dropped, y.dim(2) - dropped) : y;
}

Tensor repeat_up_frame(Tensor x, int64_t out, Block block, Tensor at) {
  const Tensor times = constant(at.graph(), static_cast<double>(block.time), at.shape());
  const Tensor from = at / times;
  const Tensor frames = repeat_up(dynamic_slice(x, Axis(2), from, 1), out, block, false);
  return dynamic_slice(frames, Axis(2), at - from * times, 1);
}

Tensor patchify(Tensor x, int64_t p) {
  if (p == 1) {
    return x;
  }
  const Dims d = x.shape().dims;
  const Tensor y = reshape(x, {d[0], d[1], d[2], d[3] / p, p, d[4] / p, p});
  return reshape(transpose(y, {0, 1, 6, 4, 2, 3, 5}),
                 {d[0], d[1] * p * p, d[2], d[3] / p, d[4] / p});
}

Tensor unpatchify(Tensor x, int64_t p) {
  if (p == 1) {
    return x;
  }
  const Dims d = x.shape().dims;
  const Tensor y = reshape(x, {d[0], d[1] / (p * p), p, p, d[2], d[3], d[4]});
  return reshape(transpose(y, {0, 1, 4, 5, 3, 6, 2}),
                 {d[0], d[1] / (p * p), d[2], d[3] * p, d[4] * p});
}

}  // namespace kinema::vae
