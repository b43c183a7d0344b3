#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/networks/network.h"

namespace kinema::model_source {

/// Where pretrained_model_name_or_path is the folder of a run, or a checkpoint of one: the
/// configuration with the pipeline that the run began with in its place, and with the checkpoint
/// (of a run the newest) as wan_transformer_pretrained_model_name_or_path unless that is given.
/// Training then begins with the checkpoint's weights. Other configurations are returned as they
/// are. Throws an Error where there is no valid checkpoint.
config::Loaded with_run_as_model(config::Loaded loaded);

/// The checkpoint that `path` names: itself, or the newest valid one of a run. Throws an Error
/// where there is none.
std::filesystem::path checkpoint_of(const std::filesystem::path& path);

/// The checkpoint of init_from: of a run by its path, or else by its name in output_dir.
std::filesystem::path init_checkpoint(const config::RunConfig& run);

/// Throws an Error that names the first key of the network that another network's checkpoint has
/// otherwise: its weights are none of this one.
void check_same_network(const networks::Network& network, const std::filesystem::path& checkpoint);

/// Throws an Error where the checkpoint is of a network of another class than the one that goes on
/// from it.
void check_same_class(const networks::Network& network, const std::filesystem::path& checkpoint);

/// The keys that name what a model is made of.
std::vector<std::string> model_keys();

/// A line for each of them that names another model than the run of a checkpoint was made of, by
/// the config.yml around it; none where there is no such file.
std::vector<std::string> other_models(const config::Config& config,
                                      const std::filesystem::path& checkpoint);

}  // namespace kinema::model_source
