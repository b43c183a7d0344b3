#pragma once

#include <span>
#include <string>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/clip/config.h"
#include "kinema/nn/params.h"

/// SigLIP's vision model (arXiv:2303.15343), the image encoder of FLUX.1 Redux: CLIP's layers on
/// patches without a class token. Source: transformers SiglipVisionModel.
namespace kinema::clip {

/// The parameters that `siglip_states` reads, in its order: without the pooling head. `prefix` is
/// `vision_model` in published checkpoints and empty in files of newer transformers versions.
std::vector<nn::ParamSpec> siglip_parameters(const VisionConfig& config, const std::string& prefix,
                                             DType dtype = DType::F32);

/// pixels [b, 3, image_size, image_size], normalised -> [b, patches, hidden_size] in `dtype`: the
/// states of the last layer after the final norm.
Tensor siglip_states(std::span<const Tensor> params, const VisionConfig& config,
                     const std::string& prefix, Tensor pixels, DType dtype, Precision precision);

/// FLUX.1 Redux: an image's states as tokens of a text encoder's width, [b, n, redux_dim] -> [b, n,
/// txt_in_features]. Source: diffusers ReduxImageEncoder.
struct ReduxConfig {
  int64_t redux_dim = 1152;
  int64_t txt_in_features = 4096;
};
std::vector<nn::ParamSpec> redux_parameters(const ReduxConfig& config);
Tensor redux_tokens(std::span<const Tensor> params, const ReduxConfig& config, Tensor states,
                    Precision precision);

}  // namespace kinema::clip
