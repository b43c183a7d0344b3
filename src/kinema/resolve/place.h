#pragma once

#include "kinema/config/config.h"
#include "kinema/world/place.h"

namespace kinema::resolve {

/// Which of a run's processes this is, where no launcher says so (`launched`, of one process): on
/// TPUs what the host's environment says, or its metadata server where TPUs are seen; then what the
/// configuration's keys say. Throws what world::find_tpu_place and world::told_place throw.
world::Place place_of(const config::Config& config, const world::Place& launched);

}  // namespace kinema::resolve
