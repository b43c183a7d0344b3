#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kinema/model_files/checkpoint.h"
#include "kinema/models/unet/config.h"
#include "kinema/networks/network.h"

/// What UNets and their ControlNets read and report alike.
namespace kinema::networks {

/// The sizes of the down path and the middle, from a checkpoint's tensors: heads of 64 channels
/// (Stable Diffusion 1: 8 heads on each level) and groups of 32, as in every released model.
unet::UNetConfig encoder_from_shapes(const model_files::Checkpoint& checkpoint);

/// Keys and values of transformers with these layers, heads and head widths.
std::vector<Value> unet_key_values(const std::vector<std::array<int64_t, 3>>& sizes,
                                   const nn::ModelOptions& options, int64_t contexts,
                                   int64_t text_tokens);

}  // namespace kinema::networks
