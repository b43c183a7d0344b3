#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "kinema/io/json.h"
#include "kinema/networks/network.h"
#include "kinema/weights/checkpoint.h"

namespace kinema::networks {

/// The network of a model folder, or of a single safetensors file: what a diffusers `config.json`
/// says, else what the tensors' shapes say. Throws an Error naming file and key for a wrong class,
/// a missing or wrongly typed key, or sizes that cannot be, and one naming its kind for a network
/// that is not supported (weights::ModelKind).
Network open(const std::filesystem::path& path);
Network open(const weights::Checkpoint& checkpoint);

/// What the tensors' shapes alone say, whatever a `config.json` says.
Network from_shapes(const weights::Checkpoint& checkpoint);

/// The network of a `config.json` in diffusers' keys.
Network from_config(const io::Json& config);

/// The configuration of a released model by its name; nothing where none has that name. The sizes
/// of what starts from scratch are given over the first of them.
std::optional<io::Json> released_config(std::string_view name);
io::Json default_config();

}  // namespace kinema::networks
