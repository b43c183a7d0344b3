#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kinema::networks {

/// Checks whether kinema would accept a model folder: its config, weights files against their
/// index, names, shapes and dtypes of its tensors, and whether all values are finite. Of a pipeline
/// folder, it checks each model; of a file, whether it is a complete transformer, an autoencoder or
/// a LoRA.
/// Returns a line with the kind of model; throws an Error with the first problem.
std::string check_path(const std::filesystem::path& path);

/// The same for a LoRA, a file or a PEFT folder: also checks that each key names a module.
std::string check_lora(const std::filesystem::path& path);

/// Model folders in a folder that would be a pipeline if it had a model_index.json, the network
/// first; none for other folders.
std::vector<std::string> parts_without_index(const std::filesystem::path& path);

}  // namespace kinema::networks
