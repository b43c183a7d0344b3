#pragma once

#include "kinema/config/config.h"
#include "kinema/data/space_to_depth.h"
#include "kinema/nn/init.h"
#include "kinema/nn/model_options.h"

/// Converts configuration keys to the models' options.
namespace kinema::model_source {

/// Throws an Error if a value is not a valid choice, list or mapping of its key.
void check_model_values(const config::Config& config);

DType dtype(config::Dtype given);
Precision precision(config::MatmulPrecision given);
nn::ModelOptions model_options(const config::Config& config);
/// True if the blocks of a network are one loop of a compiled program.
bool runs_blocks_as_loop(const config::Config& config);
data::SpaceToDepth space_to_depth(const config::Config& config);
nn::InitOptions init_options(const config::Config& config);

}  // namespace kinema::model_source
