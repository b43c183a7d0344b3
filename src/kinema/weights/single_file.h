#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// What lies in one file: a network, or a whole pipeline.
namespace kinema::weights {

/// The models of a pipeline in a single file beside the network: kVae, kTextEncoder, kTextEncoder2.
/// None for a folder. Throws an Error for a damaged file.
std::vector<std::string_view> parts_in(const std::filesystem::path& path);

/// What a single file holds, with the naming of a network: `original names of Flux`, `vae`; empty
/// for a file of none that is known. Throws what Checkpoint::open throws.
std::string models_in(const std::filesystem::path& path);

}  // namespace kinema::weights
