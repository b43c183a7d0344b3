#pragma once

#include <filesystem>

#include "kinema/io/json.h"
#include "kinema/models/vae/config.h"

namespace kinema::weights {

/// True when `_class_name` says so.
bool is_vae(const io::Json& config);

/// The sizes of a `config.json` of AutoencoderKLWan; keys that are absent have diffusers' defaults.
/// Throws an Error naming file and key for a wrong class, an unknown or wrongly typed key, or sizes
/// that cannot be.
vae::Config parse_vae_config(const io::Json& json);

/// The reverse.
io::Json vae_config_json(const vae::Config& config);

/// Reads `config.json` of a VAE folder; throws as parse_vae_config does.
vae::Config read_vae_config(const std::filesystem::path& folder);

}  // namespace kinema::weights
