#pragma once

#include "kinema/config/config.h"
#include "kinema/world/launch.h"

namespace kinema::resolve {

/// This process's rank and peers if no launcher gives them (`launched` has one process): on TPU
/// hosts from the environment or the metadata server, then from the configuration's keys. Throws
/// the errors of world::detect_tpu_launch and world::configured_launch.
world::Launch process_launch(const config::Config& config, const world::Launch& launched);

}  // namespace kinema::resolve
