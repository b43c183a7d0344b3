#pragma once

#include <optional>

#include "kinema/graph/ops.h"
#include "kinema/models/wan/config.h"
#include "kinema/nn/conv.h"
#include "kinema/nn/params.h"

/// Inputs of the Wan Fun models beside channels after those of the latents. Source: VideoX-Fun's
/// WanTransformer3DModel.
namespace kinema::wan {

/// Latents of a reference image as tokens that go in front of the video's, as one frame more: a
/// convolution over patches.
class ReferenceTokens {
 public:
  ReferenceTokens(const nn::Params& root, const TransformerConfig& config);

  /// [b, ref_conv_channels, 1, h, w] -> [b, tokens of a frame, d] in the dtype of `dtype`.
  Tensor operator()(Tensor latents, DType dtype, Precision precision) const;

 private:
  nn::Conv2d conv_;
};

/// A camera's path as a map that is added to the patch embedding: the rays through the pixels
/// (Pluecker coordinates, 6 numbers), with the four pictures of a latent frame as channels.
class CameraAdapter {
 public:
  CameraAdapter(const nn::Params& root, const TransformerConfig& config);

  /// rays [b, control_adapter_channels, f, H, W], f those of latents -> [b, d, f, rows, columns] of
  /// patches, in `dtype`.
  Tensor operator()(Tensor rays, DType dtype, Precision precision) const;

 private:
  int64_t shrink_;
  nn::Conv2d conv_;
  nn::Conv2d conv1_;
  nn::Conv2d conv2_;
};

}  // namespace kinema::wan
