#pragma once

#include "kinema/config/config.h"
#include "kinema/job/job.h"

namespace kinema::model_source {

/// The use of a configuration's models by a command, which determines the required parts.
enum class Use { TRAIN, PREPARE, GENERATE, GENERATE_FROM_RUN };

/// The configuration with local folders for each ..._pretrained_model_name_or_path that the command
/// needs; missing ones are downloaded. Other names stay.
config::Loaded with_local_models(config::Loaded loaded, Use use, const Job& job = {});

}  // namespace kinema::model_source
