#pragma once

#include <filesystem>
#include <string>

namespace kinema::networks {

/// Says of a model folder whether it would be accepted: config, weights files against their index,
/// and, for a transformer, names, shapes and dtypes of its tensors; of a pipeline folder, the same
/// for each model in it; of a safetensors file, whether it is a whole transformer or a LoRA.
/// Returns one line saying what it is; throws an Error saying what is wrong.
std::string check_path(const std::filesystem::path& path);

}  // namespace kinema::networks
