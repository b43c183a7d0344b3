#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "kinema/models/unet/config.h"
#include "kinema/models/unet/unet.h"
#include "kinema/nn/conv.h"
#include "kinema/nn/embedding.h"
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"

/// What UNets and ControlNets have in common outside the levels.
namespace kinema::unet {

/// The first convolution, and the embedding of the timestep, in Stable Diffusion XL also of pooled
/// text and sizes.
class Entry {
 public:
  Entry(const nn::Params& root, const UNetConfig& config);

  /// [b, in_channels, h, w] in any float dtype -> [b, c, h, w] in `dtype`. Tap: `conv_in`.
  Tensor convolve(const UNetInputs& inputs, const nn::ModelOptions& options) const;
  /// The sum of the embeddings before the levels' SiLU, f32 [b or 1, time_dim]. Taps:
  /// `time_sinusoid`, `time_embedding`, `add_time_sinusoid`, `add_embedding`.
  Tensor embed(const UNetInputs& inputs, const nn::ModelOptions& options) const;

 private:
  const UNetConfig& config_;
  nn::Conv2d conv_in_;
  nn::EmbeddingMlp time_;
  std::optional<nn::EmbeddingMlp> addition_;
};

/// Specs as `options` store them, for parameters opened through the collector.
nn::SpecCollector spec_collector(const nn::ModelOptions& options);
/// The collected specs; throws an Error if the quantization names a module that does not exist.
std::vector<nn::ParamSpec> finished(nn::SpecCollector& specs, const nn::ModelOptions& options);

/// Throws an Error with the shapes of inputs that do not fit; `keys` is the number of tensors of
/// keys and values.
void check_inputs(const UNetInputs& inputs, const UNetConfig& config,
                  const nn::ModelOptions& options, size_t keys);

}  // namespace kinema::unet
