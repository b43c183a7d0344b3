#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kinema::networks {

/// Says of a model folder whether it would be accepted: config, weights files against their index,
/// names, shapes and dtypes of its tensors, and whether all their values are finite; of a pipeline
/// folder, the same for each model in it; of a file, whether it is a whole transformer, an
/// autoencoder or a LoRA.
/// Returns one line saying what it is; throws an Error saying what is wrong.
std::string check_path(const std::filesystem::path& path);

/// The same of a LoRA, a file or a folder of PEFT: also that each key names a module.
std::string check_lora(const std::filesystem::path& path);

/// Folders of models in what would be a pipeline if it had a model_index.json, the network first;
/// none in other folders.
std::vector<std::string> parts_without_index(const std::filesystem::path& path);

}  // namespace kinema::networks
