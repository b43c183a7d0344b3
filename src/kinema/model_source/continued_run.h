#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/networks/network.h"

namespace kinema::model_source {

/// If pretrained_model_name_or_path is the folder of a run or of a checkpoint: returns the
/// configuration with the pipeline that the run started with, and with the checkpoint (of a run the
/// newest) as wan_transformer_pretrained_model_name_or_path unless that is given. Training then
/// starts with the checkpoint's weights. Other configurations are returned unchanged. Throws an
/// Error if there is no valid checkpoint.
config::Loaded with_run_as_model(config::Loaded loaded);

/// The checkpoint at `path`: itself, or the newest valid one of a run. Throws an Error if there is
/// none.
std::filesystem::path checkpoint_of(const std::filesystem::path& path);

/// The checkpoint of init_from, which is the path of a run, or its name in output_dir.
std::filesystem::path init_checkpoint(const config::RunConfig& run);

/// Throws an Error if the checkpoint's network has other sizes, so that its weights do not fit; it
/// names the first key that differs.
void check_same_network(const networks::Network& network, const std::filesystem::path& checkpoint);

/// Throws an Error if the checkpoint's network has another class than the network that resumes from
/// it.
void check_same_class(const networks::Network& network, const std::filesystem::path& checkpoint);

/// The keys that name a pipeline or its parts.
std::vector<std::string> model_keys();

/// A line for each of these keys that names another model than the checkpoint's run used, according
/// to its config.yml; none without that file.
std::vector<std::string> other_models(const config::Config& config,
                                      const std::filesystem::path& checkpoint);

}  // namespace kinema::model_source
