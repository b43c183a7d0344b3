#pragma once

#include <optional>
#include <string_view>

#include "kinema/io/json.h"
#include "kinema/networks/network.h"
#include "kinema/weights/checkpoint.h"

namespace kinema::networks {

/// How a family's networks are made: each of the functions below is in the file of its name.
struct Maker {
  /// `_class_name` of its config.json in diffusers' keys.
  std::string_view class_name;
  /// Of such a file; throws an Error naming the key that does not fit.
  Network (*from_config)(const io::Json& config);
  /// Of a checkpoint that is one (weights::is_transformer), by its tensors' shapes alone.
  Network (*from_shapes)(const weights::Checkpoint& checkpoint);
  /// The configuration of the release that a name means, e.g.
  /// `Wan-AI/Wan2.1-T2V-1.3B-Diffusers`; nothing for another.
  std::optional<io::Json> (*released_config)(std::string_view name);
};

Maker wan_family();   // Wan 2.1 and 2.2, models/wan
Maker flux_family();  // Flux.1, models/flux
Maker unet_family();  // Stable Diffusion XL, models/unet

}  // namespace kinema::networks
