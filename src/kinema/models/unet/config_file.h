#pragma once

#include <string_view>

#include "kinema/io/json.h"
#include "kinema/models/unet/config.h"

namespace kinema::unet {

/// `_class_name` of config.json.
inline constexpr std::string_view kClassName = "UNet2DConditionModel";

/// diffusers' `config.json` of an SDXL UNet. Throws an Error with file and key for another class, a
/// missing or unknown key, another type or invalid sizes. For other kinds of UNet (Stable Diffusion
/// 1 and 2) it says that they are not supported.
UNetConfig parse_config(const io::Json& json);

/// The same object, for saving.
io::Json config_json(const UNetConfig& config);

}  // namespace kinema::unet
