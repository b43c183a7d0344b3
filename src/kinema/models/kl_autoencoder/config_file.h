#pragma once

#include <string_view>

#include "kinema/io/json.h"
#include "kinema/models/kl_autoencoder/config.h"

namespace kinema::kl_autoencoder {

/// `_class_name` of config.json.
inline constexpr std::string_view kClassName = "AutoencoderKL";

/// diffusers' `config.json`. Throws an Error naming file and key for a wrong class, a missing or
/// unknown key, another type, or sizes that cannot be.
AutoencoderConfig parse_config(const io::Json& json);

/// The same object, for what is saved.
io::Json config_json(const AutoencoderConfig& config);

}  // namespace kinema::kl_autoencoder
