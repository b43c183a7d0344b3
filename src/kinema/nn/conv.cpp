#include "kinema/nn/conv.h"

#include <cmath>
#include <span>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/kernels/settings.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"

namespace kinema::nn {

namespace {

/// One value per channel of x [b, c, ...].
Tensor along_channels(Tensor values, Tensor x) {
  Dims dims(static_cast<size_t>(x.rank() - 1), 1);
  dims[0] = values.dim(0);
  return reshape(values, dims);
}

/// The group norm of x in the dtype of weight and bias.
Tensor group_norm(Tensor x, Tensor weight, Tensor bias, int64_t groups, double epsilon) {
  const Dims& dims = x.shape().dims;
  const Tensor wide = as(x, weight.dtype());
  const Tensor y = reshape(layer_norm(reshape(wide, {dims[0], groups, -1}), epsilon), dims);
  return y * along_channels(weight, y) + along_channels(bias, y);
}

/// In x's dtype; the bias is added in the bias's dtype, and the sum is rounded once.
Tensor biased(Tensor x, Tensor bias) {
  return as(as(x, bias.dtype()) + along_channels(bias, x), x.dtype());
}

}  // namespace

GroupNorm::GroupNorm(const Params& params, int64_t channels, int64_t groups, double eps)
    : groups_(groups),
      eps_(eps),
      weight_(params.weight("weight", {channels}, {""}, Init::ones())),
      bias_(params.weight("bias", {channels}, {""}, Init::zeros())) {}

void GroupNorm::check_channels(Tensor x) const {
  check(x.rank() >= 2 && x.dim(1) == weight_.dim(0) && x.dim(1) % groups_ == 0,
        "[norm] x is {} but must have {} channels, a multiple of {} groups", to_string(x.shape()),
        weight_.dim(0), groups_);
}

Tensor GroupNorm::operator()(Tensor x) const {
  check_channels(x);
  const DType wide = widened(x).dtype();
  return as(group_norm(x, as(weight_, wide), as(bias_, wide), groups_, eps_), x.dtype());
}

std::optional<ConvAdapter> ConvAdapter::open(const Params& params, int64_t in, int64_t out,
                                             int64_t kernel) {
  const AdapterForm form = params.adapter_form(out, in * kernel * kernel);
  if (form.rank == 0) {
    return std::nullopt;
  }
  check(form.kind == AdapterKind::LORA,
        "[adapter] {} is a convolution, which only an adapter of the type LoRA can have\n  "
        "adapter_type=lora, or lora_target_modules without convolutions",
        params.place());
  const Init uniform =
      Init::uniform(1.0 / std::sqrt(static_cast<double>(in * kernel * kernel)));  // as in PEFT
  return ConvAdapter{.down = params.weight("lora_A.weight", {form.rank, in, kernel, kernel},
                                           {"", "", "", ""}, uniform),
                     .up = params.weight("lora_B.weight", {out, form.rank, 1, 1},
                                         {"conv_out", "", "", ""}, Init::zeros()),
                     .scale = params.weight("lora_scale", {form.rank}, {""}, Init::ones())};
}

Tensor ConvAdapter::operator()(Tensor x, const ConvolutionAttrs& how) const {
  const Tensor inner = convolution(x, as(down, x.dtype()), how);
  const Tensor scaled = inner * along_channels(as(scale, inner.dtype()), inner);
  return convolution(scaled, as(up, x.dtype()),
                     {.strides = {1, 1}, .pad = {{0, 0}, {0, 0}}, .precision = how.precision});
}

Conv2d::Conv2d(const Params& params, int64_t in, int64_t out, int64_t kernel, const Init& init)
    : kernel_(kernel),
      weight_(params.weight("weight", {out, in, kernel, kernel}, {"conv_out", "", "", ""}, init)),
      bias_(params.weight("bias", {out}, {""}, Init::zeros())),
      adapter_(ConvAdapter::open(params, in, out, kernel)) {}

Tensor Conv2d::operator()(Tensor x, Padding padding, int64_t stride, Precision precision) const {
  const std::pair<int64_t, int64_t> pad{padding.before, padding.after};
  const ConvolutionAttrs how{
      .strides = {stride, stride}, .pad = {pad, pad}, .precision = precision};
  const Tensor y = convolution(x, as(weight_, x.dtype()), how);
  const Tensor bias = as(bias_, widened(y).dtype());
  return adapter_ ? as(as(y, bias.dtype()) + as((*adapter_)(x, how), bias.dtype()) +
                           along_channels(bias, y),
                       x.dtype())
                  : biased(y, bias);
}

Tensor Conv2d::operator()(const GroupNorm& norm, Tensor x, Precision precision) const {
  norm.check_channels(x);
  if (adapter_) {  // the adapter needs silu(norm(x)) too
    const Tensor wide = widened(x);
    const Tensor normed = group_norm(x, as(norm.weight_, wide.dtype()),
                                     as(norm.bias_, wide.dtype()), norm.groups_, norm.eps_);
    return (*this)(as(silu(normed), x.dtype()), precision);
  }
  const DType wide = widened(x).dtype();
  const std::pair<int64_t, int64_t> pad{kernel_ / 2, kernel_ / 2};
  const kernels::ActivatedConvolutionSettings settings{
      .groups = norm.groups_,
      .epsilon = norm.eps_,
      .convolution = {.strides = {1, 1}, .pad = {pad, pad}, .precision = precision}};
  return fused(
      "activated_convolution", settings,
      {x, as(norm.weight_, wide), as(norm.bias_, wide), as(weight_, x.dtype()), as(bias_, wide)},
      [&](std::span<const Tensor> in) -> std::vector<Tensor> {
        const Tensor normed = group_norm(in[0], in[1], in[2], settings.groups, settings.epsilon);
        const Tensor activated = as(silu(normed), in[0].dtype());
        return {biased(convolution(activated, in[3], settings.convolution), in[4])};
      })[0];
}

namespace {

/// Repeats each pixel of one axis `times` times.
Tensor repeated(Tensor x, int64_t axis, int64_t times) {
  Dims spread = x.shape().dims;
  spread.insert(spread.begin() + axis + 1, times);
  Dims result = x.shape().dims;
  result[static_cast<size_t>(axis)] *= times;
  return reshape(broadcast_to(expand_dims(x, Axis(axis + 1)), spread), result);
}

/// Pixels of one axis, each the one at floor(i from / to). Not a gather: XLA's CPU compiler aborts
/// on some partitioned gathers (jaxlib 0.8.2, "Non-simplified HLO Gather").
Tensor resize_axis(Tensor x, int64_t axis, int64_t to) {
  const int64_t from = x.dim(axis);
  if (from == to) {
    return x;
  }
  // An odd axis of a UNet: repeat, then drop the last pixel.
  const int64_t times = (to + from - 1) / from;
  bool is_cut = true;
  for (int64_t i = 0; i < to; ++i) {
    is_cut = is_cut && i * from / to == i / times;
  }
  if (is_cut) {
    const Tensor wide = repeated(x, axis, times);
    return wide.dim(axis) == to ? wide : slice(wide, Axis(axis), 0, to);
  }
  std::vector<Tensor> pixels;
  for (int64_t i = 0; i < to; ++i) {
    pixels.push_back(slice(x, Axis(axis), i * from / to, 1));
  }
  return concatenate(pixels, Axis(axis));
}

}  // namespace

Tensor resize_nearest(Tensor x, int64_t rows, int64_t columns) {
  check(x.rank() == 4, "[resize] x is {} but must be [b, c, h, w]", to_string(x.shape()));
  return resize_axis(resize_axis(x, 2, rows), 3, columns);
}

}  // namespace kinema::nn
