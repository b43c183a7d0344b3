#pragma once

#include <string_view>

#include "kinema/io/json.h"
#include "kinema/models/flux/config.h"

namespace kinema::flux {

/// `_class_name` of config.json.
inline constexpr std::string_view kClassName = "FluxTransformer2DModel";

/// diffusers' `config.json`. Throws an Error naming file and key for a wrong class, a missing or
/// unknown key, another type, or sizes that cannot be.
TransformerConfig parse_config(const io::Json& json);

/// The same object, for what is saved.
io::Json config_json(const TransformerConfig& config);

}  // namespace kinema::flux
