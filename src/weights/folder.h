#pragma once

#include <span>

#include "io/model_folder.h"
#include "nn/params.h"

namespace kinema::weights {

/// check_folder for a folder that is already open.
void check_tensors(const io::ModelFolder& folder, std::span<const nn::ParamSpec> specs);

}  // namespace kinema::weights
