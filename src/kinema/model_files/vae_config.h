#pragma once

#include <filesystem>

#include "kinema/io/json.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/models/vae/config.h"

namespace kinema::model_files {

/// True for this `_class_name`.
bool is_vae(const io::Json& config);

/// The sizes of a `config.json` of AutoencoderKLWan; missing keys have diffusers' defaults. Throws
/// an Error with file and key for another class, an unknown or wrongly typed key, or invalid sizes.
vae::Config parse_vae_config(const io::Json& json);

/// The reverse.
io::Json vae_config_json(const vae::Config& config);

/// The sizes of a Wan VAE in a folder or file: from its configuration, else from its shapes.
/// Without a configuration, the latents' mean and deviation are those of the released models of 16
/// (Wan 2.1) and 48 channels (Wan 2.2). Throws an Error with file and key, or tensor, for invalid
/// sizes.
vae::Config vae_config(const Checkpoint& files);

/// True for a single file with a Wan VAE. Throws an Error for a corrupt file.
bool is_vae_file(const std::filesystem::path& path);

/// Reads `config.json` of a VAE folder; throws as parse_vae_config does.
vae::Config read_vae_config(const std::filesystem::path& folder);

}  // namespace kinema::model_files
