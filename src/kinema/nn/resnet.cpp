#include "kinema/nn/resnet.h"

namespace kinema::nn {
namespace {

std::optional<Linear> time_projection(const Params& params, int64_t out,
                                      const ResnetBlock::Options& options) {
  if (options.time_dim == 0) {
    return std::nullopt;
  }
  return Linear(params / "time_emb_proj", options.time_dim, out,
                {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp"});
}

}  // namespace

ResnetBlock::ResnetBlock(const Params& params, int64_t in, int64_t out, const Options& options)
    : norm1_(params / "norm1", in, options.groups, options.eps),
      conv1_(params / "conv1", in, out, 3),
      time_(time_projection(params, out, options)),
      norm2_(params / "norm2", out, options.groups, options.eps),
      conv2_(params / "conv2", out, out, 3, options.last) {
  if (in != out) {
    shortcut_.emplace(params / "conv_shortcut", in, out, 1);
  }
}

Tensor ResnetBlock::operator()(Tensor x, Tensor temb, Precision precision, const Tap& tap) const {
  if (tap) {
    tap("norm1", norm1_(x));
  }
  Tensor y = conv1_(norm1_, x, precision);
  if (time_) {
    const Tensor time = (*time_)(temb, precision);
    if (tap) {
      tap("time_emb_proj", time);
    }
    y = y + expand_dims(expand_dims(time, Axis(2)), Axis(3));
  }
  y = conv2_(norm2_, y, precision);
  return (shortcut_ ? (*shortcut_)(x, precision) : x) + y;
}

}  // namespace kinema::nn
