#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/wan/config.h"
#include "kinema/nn/params.h"

/// The motion of a face, as a combination of few learned directions. Source: LIA (Y. Wang et al.,
/// "Latent Image Animator", ICLR 2022) with StyleGAN2's layers (arXiv:1912.04958), as in diffusers
/// WanAnimateTransformer3DModel.
namespace kinema::wan {

/// Called with an intermediate value and its name.
using MotionTap = std::function<void(const std::string& name, Tensor value)>;

/// A convolution over images with an equalised learning rate: the stored weight is of order one,
/// and is multiplied by 1 / sqrt(fan in). With `activated`, sqrt(2) leaky_relu(y + bias) follows
/// (`act_fn.bias`), else nothing.
class EqualizedConv {
 public:
  EqualizedConv(const nn::Params& params, int64_t in, int64_t out, int64_t kernel, bool activated);

  /// [n, in, h, w] -> [n, out, h', w'], with `padding` zeros on all sides.
  Tensor operator()(Tensor x, int64_t padding, int64_t stride, Precision precision) const;

 private:
  double scale_;
  Tensor weight_;
  Tensor bias_;  // or empty
};

/// (act(conv2(blur(act(conv1(x))))) + skip(blur(x))) / sqrt(2), of half the sides.
class MotionBlock {
 public:
  MotionBlock(const nn::Params& params, int64_t in, int64_t out);

  /// [n, in, h, w] -> [n, out, h / 2, w / 2]. Taps: `conv2`, `conv_skip`.
  Tensor operator()(Tensor x, Precision precision, const MotionTap& tap) const;

 private:
  EqualizedConv conv1_;
  EqualizedConv conv2_;
  EqualizedConv skip_;
};

/// Pictures of a face to vectors: convolutions and linear layers give the amounts of the
/// directions, which are the orthonormal columns Q of the QR decomposition of a weight. All in f32:
/// it is computed once for a video.
class MotionEncoder {
 public:
  MotionEncoder(const nn::Params& params, const AnimateConfig& config);

  /// Pixels [b, 3, f, size, size] in [-1, 1] -> f32 [b, f, motion_encoder_dim]. One frame at a
  /// time, unless there is a tap: `motion.q`, and of the first two frames `motion.conv_in`,
  /// `motion.res_blockN`, `motion.res_blockN.PART`, `motion.conv_out`, `motion.network`.
  Tensor operator()(Tensor pixels, Precision precision, const MotionTap& tap) const;

 private:
  struct EqualizedLinear {
    EqualizedLinear(const nn::Params& params, int64_t in, int64_t out);
    Tensor operator()(Tensor x, Precision precision) const;

    double scale;
    Tensor weight;
    Tensor bias;
  };

  /// The amounts of the directions, f32 [n, motion_dim], of pictures [n, 3, size, size].
  Tensor amounts(Tensor pictures, Precision precision, const MotionTap& tap) const;

  int64_t size_;
  EqualizedConv conv_in_;
  std::vector<MotionBlock> blocks_;
  std::optional<EqualizedConv> conv_out_;
  std::vector<EqualizedLinear> network_;
  Tensor directions_;  // [motion_encoder_dim, motion_dim]
};

}  // namespace kinema::wan
