#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "kinema/io/json.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/networks/network.h"

namespace kinema::networks {

/// The network of a model folder or of a single safetensors file: from a diffusers `config.json` if
/// there is one, else from the tensors' shapes. Throws an Error with file and key for another
/// class, a missing or wrongly typed key, or invalid sizes, and one with the kind of an unsupported
/// network (weights::ModelKind).
Network open(const std::filesystem::path& path);
Network open(const model_files::Checkpoint& checkpoint);

/// From the tensors' shapes, without reading a `config.json`; of a network with a module laid over
/// it, the network from its `config.json` if it has one.
Network from_shapes(const model_files::Checkpoint& checkpoint);

/// The network of a diffusers `config.json`.
Network from_config(const io::Json& config);

/// The configuration of a released model by its name; nothing for an unknown name. `default_config`
/// is the one that sizes for training from scratch override.
std::optional<io::Json> released_config(std::string_view name);
io::Json default_config();

}  // namespace kinema::networks
