#pragma once

#include "kinema/graph/ops.h"
#include "kinema/models/wan/block_stack.h"
#include "kinema/models/wan/config.h"
#include "kinema/models/wan/motion_encoder.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/params.h"
#include "kinema/nn/patch_embedding.h"

/// Wan-Animate: a character that moves as the poses and faces of a video. Source: arXiv:2509.14055;
/// diffusers WanAnimateTransformer3DModel.
namespace kinema::wan {

/// Motion vectors of pictures to tokens of latent frames: causal convolutions over time, of which
/// two halve the number of frames.
class FaceEncoder {
 public:
  FaceEncoder(const nn::Params& params, const TransformerConfig& config);

  /// f32 [b, 4 n + 1, motion_encoder_dim] -> f32 [b, n + 1, heads + 1, d]; the last token of a
  /// frame is learned, so that others may see nothing.
  Tensor operator()(Tensor motion, Precision precision) const;

 private:
  /// A convolution of three frames along time, of which two are earlier; those before the first are
  /// equal to it.
  struct CausalConv {
    CausalConv(const nn::Params& params, int64_t in, int64_t out);
    /// [b, in, f] -> [b, out, ceil(f / stride)].
    Tensor operator()(Tensor x, int64_t stride, Precision precision) const;

    Tensor weight;
    Tensor bias;
  };

  int64_t heads_;
  CausalConv conv1_;
  CausalConv conv2_;
  CausalConv conv3_;
  nn::Linear out_;
  Tensor padding_;  // [1, 1, 1, d]
};

/// Attention of the video's tokens to those of the face, each frame to its own.
class FaceAdapter {
 public:
  FaceAdapter(const nn::Params& params, const TransformerConfig& config);

  /// x [b, s, d] and face [b, f, t, d], s = f * tokens of a frame -> what is added to x.
  Tensor operator()(Tensor x, Tensor face, Precision precision) const;

 private:
  int64_t heads_;
  double eps_;
  nn::Linear to_q_;
  nn::Linear to_k_;
  nn::Linear to_v_;
  nn::Linear to_out_;
  nn::RmsNorm norm_q_;  // of each head, unlike Wan's other norms of queries and keys
  nn::RmsNorm norm_k_;
};

/// The parameters that Wan-Animate has in addition to Wan's image-to-video network, but for the
/// adapters.
class Animate {
 public:
  Animate(const nn::Params& root, const TransformerConfig& config);

  /// Opens the parameters of the adapters.
  static void open_adapters(const nn::Params& root, const TransformerConfig& config, bool stacked);
  static int64_t adapters(const TransformerConfig& config);

  /// What is added to the tokens of a video with `frames` frames: those of its poses [b,
  /// latent_channels, frames - 1, h, w], and zeros for the first frame, the reference image. In
  /// `dtype`. Tap: `pose_patch_embed`.
  Tensor pose_tokens(Tensor poses, DType dtype, Precision precision, const NetworkTap& tap) const;

  /// Pictures of the face, [b, 3, 4 (f - 2) + 1, size, size] in [-1, 1] -> tokens [b, f, t, d] for
  /// f latent frames in `dtype`: zeros for the reference image. They are the same in all steps.
  /// Taps: those of MotionEncoder, `motion_vec`, `face_encoder`.
  Tensor face_tokens(Tensor pixels, DType dtype, Precision precision, const NetworkTap& tap) const;

  /// What the adapters add after every inject_face_latents_blocks-th block, from the first. Taps:
  /// `face_adapterN`.
  static Residuals residuals(Tensor face, const BlockParameters& parameters, const NetworkTap& tap);

 private:
  nn::PatchEmbedding pose_;
  MotionEncoder motion_;
  FaceEncoder face_;
};

}  // namespace kinema::wan
