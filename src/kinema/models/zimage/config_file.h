#pragma once

#include <string_view>

#include "kinema/io/json.h"
#include "kinema/models/zimage/config.h"

namespace kinema::zimage {

/// `_class_name` of config.json.
inline constexpr std::string_view kClassName = "ZImageTransformer2DModel";

/// diffusers' `config.json`. Throws an Error with file and key for another class, a missing or
/// unknown key, another type, invalid sizes, or the sizes of Z-Image-Omni.
TransformerConfig parse_config(const io::Json& json);

/// The same object, for saving.
io::Json config_json(const TransformerConfig& config);

}  // namespace kinema::zimage
