#pragma once

#include <filesystem>

#include "kinema/io/json.h"
#include "kinema/models/vae/config.h"

namespace kinema::weights {

/// True for this `_class_name`.
bool is_vae(const io::Json& config);

/// The sizes of a `config.json` of AutoencoderKLWan; missing keys have diffusers' defaults. Throws
/// an Error with file and key for another class, an unknown or wrongly typed key, or invalid sizes.
vae::Config parse_vae_config(const io::Json& json);

/// The reverse.
io::Json vae_config_json(const vae::Config& config);

/// Reads `config.json` of a VAE folder; throws as parse_vae_config does.
vae::Config read_vae_config(const std::filesystem::path& folder);

}  // namespace kinema::weights
