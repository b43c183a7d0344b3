#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/clip/config.h"
#include "kinema/nn/params.h"

/// CLIP's vision model, a vision transformer (arXiv:2103.00020), the image encoder of Wan 2.1
/// image-to-video: the tokens after the last but one layer, before any final norm.
namespace kinema::clip {

/// Every parameter of a checkpoint, `layers` stacked into one tensor each. `prefix` is
/// `vision_model` in published checkpoints and empty in files of newer transformers versions.
std::vector<nn::ParamSpec> parameters(const VisionConfig& config, const std::string& prefix,
                                      DType dtype = DType::F32);

/// The parameters that `image_tokens` reads, in its order: without the last layer and the final
/// norm.
std::vector<nn::ParamSpec> token_parameters(const VisionConfig& config, const std::string& prefix,
                                            DType dtype = DType::F32);

struct VisionOptions {
  DType dtype = DType::F32;
  Precision precision = Precision::DEFAULT;
  /// Called with "embeddings", the input of the layers.
  std::function<void(const char* name, Tensor value)> tap = {};
};

/// pixels [b, 3, image_size, image_size], normalised -> [b, tokens, hidden_size] in `dtype`, class
/// token first. `params` have the shapes and the order of `token_parameters`.
Tensor image_tokens(std::span<const Tensor> params, const VisionConfig& config,
                    const std::string& prefix, Tensor pixels, const VisionOptions& options);

}  // namespace kinema::clip
