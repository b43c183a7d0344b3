#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/clip/config.h"
#include "kinema/nn/params.h"

/// The image side of CLIP, a vision transformer (arXiv:2103.00020), as Wan 2.1 image-to-video looks
/// at its image: the tokens of the last layer but one, before any final norm.
namespace kinema::clip {

/// Every parameter of a checkpoint, `layers` stacked into one tensor each. `prefix` is
/// `vision_model` in published checkpoints and empty in what newer transformers save.
std::vector<nn::ParamSpec> parameters(const VisionConfig& config, const std::string& prefix,
                                      DType dtype = DType::F32);

/// Those that `image_tokens` reads, in its order: the last layer and the final norm are not among
/// them.
std::vector<nn::ParamSpec> token_parameters(const VisionConfig& config, const std::string& prefix,
                                            DType dtype = DType::F32);

struct VisionOptions {
  DType dtype = DType::F32;
  Precision precision = Precision::DEFAULT;
  /// Called with "embeddings", what the layers begin with.
  std::function<void(const char* name, Tensor value)> tap = {};
};

/// pixels [b, 3, image_size, image_size], normalised -> [b, tokens, hidden_size] in `dtype`, class
/// token first. `params` are tensors of the shapes of `token_parameters`, in that order.
Tensor image_tokens(std::span<const Tensor> params, const VisionConfig& config,
                    const std::string& prefix, Tensor pixels, const VisionOptions& options);

}  // namespace kinema::clip
