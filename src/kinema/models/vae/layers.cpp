#include "kinema/models/vae/layers.h"

#include <cmath>

#include "kinema/core/error.h"
#include "kinema/nn/attention_by_rows.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"

namespace kinema::vae {
namespace {

constexpr double kSmallestNorm = 1e-12;  // as in torch's F.normalize
/// Earlier frames that a causal convolution reads.
constexpr int64_t kPast = 2;

/// Kernels may be sharded along their output channels.
std::vector<std::string> kernel_axes(const Dims& dims) {
  std::vector<std::string> axes(dims.size());
  axes[0] = "conv_out";
  return axes;
}

Dims kernel_dims(int64_t in, int64_t out, Conv::Kernel kernel) {
  Dims dims{out, in};
  if (kernel.frames > 0) {
    dims.push_back(kernel.frames);
  }
  dims.push_back(kernel.rows);
  dims.push_back(kernel.columns);
  return dims;
}

}  // namespace

Tensor remember(History& history, Tensor x, int64_t count) {
  // The barriers make the compiler copy the kept frames immediately. Otherwise it computes them
  // again at the end of the program, from values that it keeps in memory until then.
  const Tensor joined = optimization_barrier({concatenate({history.past(), x}, Axis(2))})[0];
  const std::vector<Tensor> both =
      optimization_barrier({joined, slice(joined, Axis(2), joined.dim(2) - count, count)});
  history.keep(both[1]);
  return both[0];
}

Tensor History::past() {
  if (first_) {
    return {};
  }
  check(next_ < past_.size(), "[vae] the past of {} convolutions was given, there are more",
        past_.size());
  return past_[next_++];
}

std::vector<Tensor> History::kept() const {
  check(first_ || next_ == past_.size(),
        "[vae] the past of {} convolutions was given, there are {}", past_.size(), next_);
  return kept_;
}

Conv::Conv(const nn::Params& params, int64_t in, int64_t out, Kernel kernel)
    : weight_(params.weight("weight", kernel_dims(in, out, kernel),
                            kernel_axes(kernel_dims(in, out, kernel)), nn::Init::xavier())),
      bias_(params.weight("bias", {out}, {""}, nn::Init::zeros())) {}

Tensor add_bias(Tensor x, Tensor bias) {
  const Tensor y = nn::widened(x);
  return nn::as(y + nn::as(bias, y.dtype()), x.dtype());
}

namespace {

/// Below this number of FLOPs, each latent frame has a separate convolution. Kernels that divide
/// the work differently, or leave it to the compiler, start far below this.
constexpr double kLargeConvolution = 2e7;

double flops(const Shape& y, Tensor weight) {
  const int64_t summed = weight.shape().elements() / weight.dim(0);
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(summed);
}

/// The output frames of each unit, computed separately.
Tensor convolve_units(Tensor x, Tensor weight, const ConvolutionAttrs& attrs, int64_t units) {
  const Tensor whole = convolution(x, weight, attrs);
  if (units == 1 ||
      flops(whole.shape(), weight) >= kLargeConvolution * static_cast<double>(units)) {
    return whole;
  }
  const int64_t out = whole.dim(2) / units;
  const int64_t stride = attrs.strides[0];
  const int64_t in = (out - 1) * stride + weight.dim(2);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < units; ++i) {
    parts.push_back(convolution(slice(x, Axis(2), i * out * stride, in), weight, attrs));
  }
  return concatenate(parts, Axis(2));
}

}  // namespace

Tensor Conv::apply(Tensor x, Tensor weight, Where where, const Compute& compute) const {
  if (weight.rank() == 4) {
    weight = expand_dims(weight, Axis(2));
  }
  ConvolutionAttrs attrs{.strides = Dims(where.stride.begin(), where.stride.end()),
                         .pad = {{0, 0}, {where.before, where.after}, {where.before, where.after}}};
  attrs.precision = compute.precision;
  const Tensor y = convolve_units(x, nn::as(weight, x.dtype()), attrs, where.units);
  return compute.placed(add_bias(y, reshape(compute.in_loop(bias_), {bias_.dim(0), 1, 1, 1})));
}

Tensor Conv::operator()(Tensor x, Where where, const Compute& compute) const {
  return apply(x, weight_, where, compute);
}

Tensor Conv::last_frame(Tensor x, Where where, const Compute& compute) const {
  return apply(x, slice(weight_, Axis(2), weight_.dim(2) - 1, 1), where, compute);
}

Tensor CausalConv::operator()(Tensor x, History& history, const Compute& compute) const {
  const Conv::Where around{.before = 1, .after = 1, .units = history.units()};
  if (history.first()) {
    check(x.dim(2) == 1, "[vae] the first chunk is one frame, not {}", x.dim(2));
    history.keep(pad(x, Axis(2), kPast - 1, 0));
    return conv_.last_frame(x, around, compute);
  }
  return conv_(remember(history, x, kPast), around, compute);
}

ChannelNorm::ChannelNorm(const nn::Params& params, int64_t dim, int64_t trailing) : dim_(dim) {
  Dims dims{dim};
  dims.resize(static_cast<size_t>(trailing) + 1, 1);
  gamma_ = params.weight("gamma", dims, std::vector<std::string>(dims.size()), nn::Init::ones());
}

Tensor ChannelNorm::operator()(Tensor x, const Compute& compute) const {
  const Tensor wide = nn::widened(x);
  const Tensor squares = sum(square(wide), {1}, true);
  const Tensor scale =
      rsqrt(maximum(squares, kSmallestNorm * kSmallestNorm)) * std::sqrt(static_cast<double>(dim_));
  const Tensor gamma = reshape(nn::as(compute.in_loop(gamma_), wide.dtype()), {dim_, 1, 1, 1});
  return nn::as(wide * scale * gamma, x.dtype());
}

ResidualBlock::ResidualBlock(const nn::Params& params, int64_t in, int64_t out)
    : norm1_(params / "norm1", in),
      conv1_(params / "conv1", in, out),
      norm2_(params / "norm2", out),
      conv2_(params / "conv2", out, out) {
  if (in != out) {
    shortcut_.emplace_back(params / "conv_shortcut", in, out, Conv::Kernel{1, 1, 1});
  }
}

Tensor ResidualBlock::operator()(Tensor x, History& history, const Compute& compute) const {
  const Tensor skip = shortcut_.empty() ? x : shortcut_[0](x, {.units = history.units()}, compute);
  x = conv1_(silu(norm1_(x, compute)), history, compute);
  x = conv2_(silu(norm2_(x, compute)), history, compute);
  return x + skip;
}

AttentionBlock::AttentionBlock(const nn::Params& params, int64_t dim)
    : dim_(dim),
      norm_(params / "norm", dim, 2),
      qkv_weight_(
          (params / "to_qkv")
              .weight("weight", {3 * dim, dim, 1, 1}, {"", "", "", ""}, nn::Init::xavier())),
      qkv_bias_((params / "to_qkv").weight("bias", {3 * dim}, {""}, nn::Init::zeros())),
      proj_weight_((params / "proj")
                       .weight("weight", {dim, dim, 1, 1}, {"", "", "", ""}, nn::Init::xavier())),
      proj_bias_((params / "proj").weight("bias", {dim}, {""}, nn::Init::zeros())) {}

Tensor AttentionBlock::operator()(Tensor x, const Compute& compute) const {
  std::vector<Tensor> frames;
  for (int64_t i = 0; i < x.dim(2); ++i) {
    frames.push_back(frame(slice(x, Axis(2), i, 1), compute));
  }
  return frames.size() == 1 ? frames[0] : concatenate(frames, Axis(2));
}

Tensor AttentionBlock::frame(Tensor x, const Compute& compute) const {
  const int64_t b = x.dim(0);
  const int64_t h = x.dim(3);
  const int64_t w = x.dim(4);
  // Pixels are the tokens: [b, h w, c].
  const Tensor tokens = reshape(transpose(norm_(x, compute), {0, 2, 3, 4, 1}), {b, h * w, dim_});
  const Tensor qkv =
      nn::linear(tokens, reshape(qkv_weight_, {3 * dim_, dim_}), qkv_bias_, compute.precision);
  const std::vector<Tensor> parts = split(reshape(qkv, {b, h * w, 3, dim_}), Axis(2), 3);
  Tensor y = nn::attention_by_rows(parts[0], parts[1], parts[2], compute.precision);
  y = nn::linear(reshape(y, {b, h * w, dim_}), reshape(proj_weight_, {dim_, dim_}), proj_bias_,
                 compute.precision);
  return compute.placed(x + transpose(reshape(y, {b, 1, h, w, dim_}), {0, 4, 1, 2, 3}));
}

MiddleBlock::MiddleBlock(const nn::Params& params, int64_t dim)
    : first_(params / "resnets" / "0", dim, dim),
      attention_(params / "attentions" / "0", dim),
      last_(params / "resnets" / "1", dim, dim) {}

Tensor MiddleBlock::operator()(Tensor x, History& history, const Compute& compute) const {
  return last_(attention_(first_(x, history, compute), compute), history, compute);
}

}  // namespace kinema::vae
