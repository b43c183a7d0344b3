#pragma once

#include "kinema/config/config.h"
#include "kinema/nn/init.h"
#include "kinema/nn/model_options.h"

/// From configuration keys to the settings of the models.
namespace kinema::runs {

DType dtype(config::Dtype given);
Precision precision(config::MatmulPrecision given);
nn::ModelOptions model_options(const config::Config& config);
nn::InitOptions init_options(const config::Config& config);

}  // namespace kinema::runs
