#pragma once

#include <array>

#include "kinema/graph/ops.h"
#include "kinema/mesh/placement.h"
#include "kinema/models/vae/history.h"
#include "kinema/nn/params.h"

/// The layers of the Wan VAE, on videos x [b, c, f, h, w]. Source: diffusers AutoencoderKLWan,
/// arXiv:2503.20314.
namespace kinema::vae {

/// How the layers are computed.
struct Compute {
  Precision precision = Precision::DEFAULT;
  /// Videos are sharded as `activation_batch` and, along their columns, as `activation_length`.
  mesh::Placement place = {};
  /// Inside a loop: the iteration number; else empty.
  Tensor turn = {};

  Compute(Precision of_products, mesh::Placement at = {})  // NOLINT(*-explicit-*): on one device
      : precision(of_products), place(std::move(at)) {}
  /// x [b, c, f, h, w] with this sharding as a constraint.
  Tensor placed(Tensor x) const {
    return place(x, {"activation_batch", "", "", "", "activation_length"});
  }
  /// A bias or gamma for use inside a loop. Compilers broadcast loop-invariant parameters to a
  /// whole frame before the loop, and keep one such frame for each; the barrier prevents it.
  Tensor in_loop(Tensor parameter) const {
    return turn ? optimization_barrier({parameter, turn})[0] : parameter;
  }
};

/// A convolution with keys `weight` and `bias` and a kernel of frames, rows, columns. 2-D kernels,
/// which torch stores without the frame axis, have `frames` 0.
class Conv {
 public:
  struct Kernel {
    int64_t frames, rows, columns;
  };
  /// Stride of the kernel, and zeros around the frames; there is no padding in time.
  struct Where {
    std::array<int64_t, 3> stride{1, 1, 1};
    int64_t before = 0;  // rows above, columns to the left
    int64_t after = 0;   // rows below, columns to the right
    /// Latent frames of the chunk. The summation order of a small convolution may depend on its
    /// size, so each latent frame gets a separate convolution.
    int64_t units = 1;
  };
  Conv(const nn::Params& params, int64_t in, int64_t out, Kernel kernel);

  Tensor operator()(Tensor x, Where where, const Compute& compute) const;
  /// With only the last frame of the kernel: equal to the whole kernel for a frame that follows
  /// frames of zeros.
  Tensor last_frame(Tensor x, Where where, const Compute& compute) const;

 private:
  Tensor apply(Tensor x, Tensor weight, Where where, const Compute& compute) const;

  Tensor weight_;
  Tensor bias_;
};

/// x after the past of the next convolution, whose new past is the last `count` frames.
Tensor remember(History& history, Tensor x, int64_t count);

/// x + y with broadcasting, in f32 or wider, returned in x's dtype.
Tensor add_bias(Tensor x, Tensor bias);

/// A 3 x 3 x 3 convolution over a frame and the two before it, with zeros before the first.
class CausalConv {
 public:
  CausalConv(const nn::Params& params, int64_t in, int64_t out)
      : conv_(params, in, out, {3, 3, 3}) {}

  Tensor operator()(Tensor x, History& history, const Compute& compute) const;

 private:
  Conv conv_;
};

/// x / max(|x|, 1e-12) sqrt(c) gamma over the channels, in f32, rounded once to x's dtype.
class ChannelNorm {
 public:
  /// `trailing` is the number of axes of size 1 after gamma's channels in the checkpoint.
  ChannelNorm(const nn::Params& params, int64_t dim, int64_t trailing = 3);

  Tensor operator()(Tensor x, const Compute& compute) const;

 private:
  int64_t dim_;
  Tensor gamma_;
};

/// conv(silu(norm(conv(silu(norm(x)))))) + x, with x through a 1 x 1 x 1 convolution if the number
/// of channels changes.
class ResidualBlock {
 public:
  ResidualBlock(const nn::Params& params, int64_t in, int64_t out);

  Tensor operator()(Tensor x, History& history, const Compute& compute) const;

 private:
  ChannelNorm norm1_;
  CausalConv conv1_;
  ChannelNorm norm2_;
  CausalConv conv2_;
  std::vector<Conv> shortcut_;  // one or none
};

/// Attention among the pixels of each frame, with one head of all channels, added to x.
class AttentionBlock {
 public:
  AttentionBlock(const nn::Params& params, int64_t dim);

  Tensor operator()(Tensor x, const Compute& compute) const;

 private:
  /// One frame, [b, c, 1, h, w].
  Tensor frame(Tensor x, const Compute& compute) const;

  int64_t dim_;
  ChannelNorm norm_;
  Tensor qkv_weight_;   // [3 c, c, 1, 1]
  Tensor qkv_bias_;     // [3 c]
  Tensor proj_weight_;  // [c, c, 1, 1]
  Tensor proj_bias_;    // [c]
};

/// Residual block, attention, residual block.
class MiddleBlock {
 public:
  MiddleBlock(const nn::Params& params, int64_t dim);

  Tensor operator()(Tensor x, History& history, const Compute& compute) const;

 private:
  ResidualBlock first_;
  AttentionBlock attention_;
  ResidualBlock last_;
};

}  // namespace kinema::vae
