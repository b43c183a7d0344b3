#pragma once

#include <optional>

#include "kinema/schedulers/diffusion.h"
#include "kinema/schedulers/flow_match.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::schedulers {

/// What the networks of a family learned, and learn further where nothing else is said: a rectified
/// flow or, in its place, a diffusion; and how they are sampled where no scheduler_config.json
/// says.
struct Learned {
  FlowMatch flow = {};
  std::optional<Diffusion> diffusion = {};
  ScheduleConfig sampled = {};
};

}  // namespace kinema::schedulers
