#include "kinema/models/wan/motion_encoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/orthogonal.h"

namespace kinema::wan {
namespace {

/// Every `stride`-th value of the blur (1, 3, 3, 1) / 8 along one axis, with `padding` zeros on
/// both sides. As shifted sums: convolutions of single channels are slow on most devices.
Tensor blurred_axis(Tensor x, int64_t axis, int64_t padding, int64_t stride) {
  constexpr std::array<double, 4> kKernel{1.0 / 8, 3.0 / 8, 3.0 / 8, 1.0 / 8};
  const Tensor wide = pad(x, Axis(axis), padding, padding);
  const auto taps = static_cast<int64_t>(kKernel.size());
  const int64_t count = (wide.dim(axis) - taps) / stride + 1;
  Tensor out;
  for (int64_t i = 0; i < taps; ++i) {
    const Tensor part = slice(wide, Axis(axis), i, count, stride) * kKernel[static_cast<size_t>(i)];
    out = i == 0 ? part : out + part;
  }
  return out;
}

Tensor blurred(Tensor x, int64_t padding, int64_t stride) {
  return blurred_axis(blurred_axis(x, 2, padding, stride), 3, padding, stride);
}

}  // namespace

EqualizedConv::EqualizedConv(const nn::Params& params, int64_t in, int64_t out, int64_t kernel,
                             bool activated)
    : scale_(1.0 / std::sqrt(static_cast<double>(in * kernel * kernel))),
      weight_(params.weight("weight", {out, in, kernel, kernel}, {"conv_out", "", "", ""},
                            nn::Init::normal(1.0))),
      bias_(activated ? (params / "act_fn").weight("bias", {out}, {""}, nn::Init::zeros())
                      : Tensor()) {}

Tensor EqualizedConv::operator()(Tensor x, int64_t padding, int64_t stride,
                                 Precision precision) const {
  const std::pair<int64_t, int64_t> pad{padding, padding};
  const Tensor y =
      convolution(x, nn::as(weight_, x.dtype()) * scale_,
                  {.strides = {stride, stride}, .pad = {pad, pad}, .precision = precision});
  if (!bias_) {
    return y;
  }
  constexpr double kSlope = 0.2;
  const Tensor z = y + reshape(nn::as(bias_, y.dtype()), {1, y.dim(1), 1, 1});
  return maximum(z, kSlope * z) * std::numbers::sqrt2;
}

MotionBlock::MotionBlock(const nn::Params& params, int64_t in, int64_t out)
    : conv1_(params / "conv1", in, in, 3, /*activated=*/true),
      conv2_(params / "conv2", in, out, 3, /*activated=*/true),
      skip_(params / "conv_skip", in, out, 1, /*activated=*/false) {}

Tensor MotionBlock::operator()(Tensor x, Precision precision, const MotionTap& tap) const {
  const auto offer = [&](const char* name, Tensor value) {
    if (tap) {
      tap(name, value);
    }
    return value;
  };
  // The blur's padding makes room for the kernel after it, which has none: 2 for 3 x 3, 1 for
  // 1 x 1, whose stride the blur takes.
  const Tensor inner = conv1_(x, 1, 1, precision);
  const Tensor y = offer("conv2", conv2_(blurred(inner, 2, 1), 0, 2, precision));
  const Tensor skipped = offer("conv_skip", skip_(blurred(x, 1, 2), 0, 1, precision));
  return (y + skipped) * (1.0 / std::numbers::sqrt2);
}

MotionEncoder::EqualizedLinear::EqualizedLinear(const nn::Params& params, int64_t in, int64_t out)
    : scale(1.0 / std::sqrt(static_cast<double>(in))),
      weight(params.weight("weight", {out, in}, {"", ""}, nn::Init::normal(1.0))),
      bias(params.weight("bias", {out}, {""}, nn::Init::zeros())) {}

Tensor MotionEncoder::EqualizedLinear::operator()(Tensor x, Precision precision) const {
  return nn::linear(x, nn::as(weight, x.dtype()) * scale, bias, precision);
}

MotionEncoder::MotionEncoder(const nn::Params& params, const AnimateConfig& c)
    : size_(c.motion_size()),
      conv_in_(params / "conv_in", 3, c.motion_channels.front(), 1, /*activated=*/true) {
  const auto blocks = static_cast<int64_t>(c.motion_channels.size()) - 1;
  for (int64_t i = 0; i < blocks; ++i) {
    blocks_.emplace_back(params / "res_blocks" / std::to_string(i),
                         c.motion_channels[static_cast<size_t>(i)],
                         c.motion_channels[static_cast<size_t>(i) + 1]);
  }
  constexpr int64_t kLastSide = 4;
  conv_out_.emplace(params / "conv_out", c.motion_channels.back(), c.motion_style_dim, kLastSide,
                    /*activated=*/false);
  constexpr int64_t kLinears = 5;
  for (int64_t i = 0; i < kLinears; ++i) {
    network_.emplace_back(params / "motion_network" / std::to_string(i), c.motion_style_dim,
                          i + 1 < kLinears ? c.motion_style_dim : c.motion_dim);
  }
  directions_ = params.weight("motion_synthesis_weight", {c.motion_encoder_dim, c.motion_dim},
                              {"", ""}, nn::Init::normal(1.0));
}

Tensor MotionEncoder::amounts(Tensor pictures, Precision precision, const MotionTap& tap) const {
  const auto offer = [&](const std::string& name, Tensor value) {
    if (tap) {
      tap("motion." + name, slice(value, Axis(0), 0, std::min<int64_t>(2, value.dim(0))));
    }
    return value;
  };
  Tensor x = offer("conv_in", conv_in_(pictures, 0, 1, precision));
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const std::string name = "res_block" + std::to_string(i);
    x = blocks_[i](x, precision,
                   [&](const std::string& part, Tensor value) { offer(name + "." + part, value); });
    offer(name, x);
  }
  x = offer("conv_out", (*conv_out_)(x, 0, 1, precision));
  x = reshape(x, {x.dim(0), x.dim(1)});
  for (const EqualizedLinear& layer : network_) {
    x = layer(x, precision);
  }
  return offer("network", x);
}

Tensor MotionEncoder::operator()(Tensor pixels, Precision precision, const MotionTap& tap) const {
  check(
      pixels.rank() == 5 && pixels.dim(1) == 3 && pixels.dim(3) == size_ && pixels.dim(4) == size_,
      "[wan] faces are {} but must be [b, 3, f, {}, {}]", to_string(pixels.shape()), size_, size_);
  const Tensor x = nn::widened(pixels);
  const int64_t b = x.dim(0);
  const int64_t frames = x.dim(2);
  Tensor amount;  // [b, f, motion_dim]
  if (tap) {
    const Tensor all = reshape(transpose(x, {0, 2, 1, 3, 4}), {b * frames, 3, size_, size_});
    amount = reshape(amounts(all, precision, tap), {b, frames, -1});
  } else {
    const Tensor each = transpose(x, {2, 0, 1, 3, 4});
    const ScanOptions options{.length = frames, .remat = {.kind = RematPolicy::Kind::FULL}};
    const ScanResult made =
        scan({}, {each}, options,
             [&](std::span<const Tensor>, std::span<const Tensor> frame) -> ScanResult {
               return {.ys = {amounts(frame[0], precision, {})}};
             });
    amount = transpose(made.ys[0], {1, 0, 2});
  }
  constexpr double kShift = 1e-8;  // as in the reference
  const Tensor q = nn::orthogonal_columns(nn::as(directions_, x.dtype()) + kShift);
  if (tap) {
    tap("motion.q", q);
  }
  return dot_general(amount, q, {.lhs_contract = {2}, .rhs_contract = {1}}, Precision::HIGHEST);
}

}  // namespace kinema::wan
