#pragma once

#include "kinema/config/config.h"
#include "kinema/job/job.h"

namespace kinema::model_source {

/// What a command does with the models of a configuration, which decides what of them it needs.
enum class Use { TRAIN, PREPARE, GENERATE, GENERATE_FROM_RUN };

/// The configuration with local folders for every ..._pretrained_model_name_or_path that the
/// command needs, downloaded where they are not on this machine. The other names stay.
config::Loaded with_local_models(config::Loaded loaded, Use use, const Job& job = {});

}  // namespace kinema::model_source
