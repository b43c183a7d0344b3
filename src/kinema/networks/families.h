#pragma once

#include <optional>
#include <string_view>

#include "kinema/io/json.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/networks/network.h"

namespace kinema::networks {

/// The functions that make a family's networks; each family has a file.
struct Maker {
  /// `_class_name` of its config.json in diffusers' format.
  std::string_view class_name;
  /// From such a file; throws an Error with the key that does not fit.
  Network (*from_config)(const io::Json& config);
  /// From a checkpoint of the family (model_files::is_transformer), by its tensors' shapes.
  Network (*from_shapes)(const model_files::Checkpoint& checkpoint);
  /// The configuration of the release with this name, e.g. `Wan-AI/Wan2.1-T2V-1.3B-Diffusers`;
  /// nothing for an unknown name.
  std::optional<io::Json> (*released_config)(std::string_view name);
};

Maker wan_family();       // Wan 2.1 and 2.2, models/wan
Maker wan_vace_family();  // with the control branch of VACE
Maker wan_animate_family();
Maker flux_family();    // Flux.1, models/flux
Maker zimage_family();  // Z-Image and Z-Image-Turbo, models/zimage
Maker unet_family();    // Stable Diffusion 1, 2 and XL, models/unet

}  // namespace kinema::networks
