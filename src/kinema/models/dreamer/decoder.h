#pragma once

#include <optional>
#include <vector>

#include "kinema/models/dreamer/rssm.h"
#include "kinema/nn/image_conv.h"

namespace kinema::dreamer {

/// States to observations: vectors through an MLP, images through convolutions over a small image
/// that the state is laid out to.
class Decoder {
 public:
  Decoder(const nn::Params& params, const AgentConfig& config);

  /// deter [n, deter], stoch [n, stoch, classes] -> by observation: images [n, rows, columns, c] in
  /// 0 .. 1; floats as symlog sees them [n, ...]; logits of integers [n, ..., classes].
  TensorMap operator()(const RssmState& state, const nn::ModelOptions& options) const;

  /// By observation, [n]: squared error, of symlog of floats and of pixels between 0 and 1, or
  /// cross entropy; summed over an observation.
  TensorMap losses(const TensorMap& reconstructed, const TensorMap& observations) const;

 private:
  struct VectorHead {
    std::string name;
    Space space;
    nn::Dense dense;
  };
  struct Stage {
    nn::ImageConv conv;
    nn::ScaleNorm norm;
  };
  /// What is there only with images.
  struct Pixels {
    Pixels(const nn::Params& params, const AgentConfig& config, const Spaces& images);

    int64_t rows;  // of the small image
    int64_t columns;
    int64_t channels;
    nn::BlockDense from_deter;
    nn::DenseBlock from_stoch;
    nn::Dense stoch_pixels;
    nn::ScaleNorm norm;
    std::vector<Stage> stages;
    nn::ImageConv out;
  };
  void vectors(TensorMap& out, const RssmState& state, const nn::ModelOptions& options) const;
  void images(TensorMap& out, const RssmState& state, const nn::ModelOptions& options) const;
  /// The small image, [n, rows, columns, channels].
  Tensor small_image(const RssmState& state, const nn::ModelOptions& options) const;

  CoderConfig config_;
  Spaces observations_;
  std::optional<nn::Mlp> mlp_;
  std::vector<VectorHead> heads_;
  Spaces images_;
  std::optional<Pixels> pixels_;
};

}  // namespace kinema::dreamer
