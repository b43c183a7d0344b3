#pragma once

#include "kinema/config/config.h"
#include "kinema/world/place.h"

namespace kinema::resolve {

/// This process's rank and peers if no launcher gives them (`launched` has one process): on TPU
/// hosts from the environment or the metadata server, then from the configuration's keys. Throws
/// the errors of world::find_tpu_place and world::told_place.
world::Place place_of(const config::Config& config, const world::Place& launched);

}  // namespace kinema::resolve
