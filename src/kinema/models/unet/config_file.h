#pragma once

#include <string_view>

#include "kinema/io/json.h"
#include "kinema/models/unet/config.h"

namespace kinema::unet {

/// `_class_name` of config.json.
inline constexpr std::string_view kClassName = "UNet2DConditionModel";

/// diffusers' `config.json` of an SDXL UNet. Throws an Error naming file and key for a wrong class,
/// a missing or unknown key, another type, sizes that cannot be, and for UNets of another kind
/// (Stable Diffusion 1 and 2), which it says.
UNetConfig parse_config(const io::Json& json);

/// The same object, for what is saved.
io::Json config_json(const UNetConfig& config);

}  // namespace kinema::unet
