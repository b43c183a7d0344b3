#pragma once

#include <optional>
#include <vector>

#include "kinema/models/dreamer/vectors.h"
#include "kinema/nn/image_conv.h"
#include "kinema/nn/mlp.h"
#include "kinema/nn/model_options.h"

namespace kinema::dreamer {

/// Observations to tokens: vectors through an MLP, images through convolutions.
class Encoder {
 public:
  Encoder(const nn::Params& params, const AgentConfig& config);

  /// Observations [n, ...] by name -> [n, tokens] in activations_dtype.
  Tensor operator()(const TensorMap& observations, const nn::ModelOptions& options) const;

  /// The number of tokens of an observation.
  static int64_t tokens(const AgentConfig& config);

 private:
  /// Convolution, pooling (not in every stage), norm, activation.
  struct Stage {
    nn::ImageConv conv;
    nn::ScaleNorm norm;
    bool pools;
  };
  Tensor encoded_images(const TensorMap& observations, const nn::ModelOptions& options) const;

  CoderConfig config_;
  Spaces vectors_;
  Spaces images_;
  std::vector<nn::DenseBlock> mlp_;
  std::vector<Stage> stages_;
};

/// The observations that are vectors, or images, in their own order.
Spaces vectors_of(const AgentConfig& config);
Spaces images_of(const AgentConfig& config);
/// Channels of all images together.
int64_t channels_of(const Spaces& images);

}  // namespace kinema::dreamer
