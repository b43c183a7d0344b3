#pragma once

#include <filesystem>

#include "kinema/config/config.h"

namespace kinema::cli {

/// Where pretrained_model_name_or_path is the folder of a run, or a checkpoint of one, makes it the
/// pipeline that the run began with, and wan_transformer_pretrained_model_name_or_path (unless it
/// is given) the checkpoint, of a run its newest: training begins with its weights. Other names
/// stay as they are. Throws an Error where there is no valid checkpoint.
void take_run_as_model(config::Config& config);

/// The checkpoint that `path` names: itself, or the newest valid one of a run. Throws an Error
/// where there is none.
std::filesystem::path checkpoint_of(const std::filesystem::path& path);

}  // namespace kinema::cli
