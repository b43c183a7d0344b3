#pragma once

#include <string_view>

#include "kinema/io/json.h"
#include "kinema/models/kl_autoencoder/config.h"

namespace kinema::kl_autoencoder {

/// `_class_name` of config.json.
inline constexpr std::string_view kClassName = "AutoencoderKL";

/// diffusers' `config.json`. Throws an Error with file and key for another class, a missing or
/// unknown key, another type, or invalid sizes.
AutoencoderConfig parse_config(const io::Json& json);

/// The same object, for saving.
io::Json config_json(const AutoencoderConfig& config);

}  // namespace kinema::kl_autoencoder
