#pragma once

#include <cstdint>
#include <vector>

#include "kinema/schedulers/schedule.h"

namespace kinema::schedulers {

/// Timesteps of models distilled from original_inference_steps evenly spaced ones (LCM, TCD): every
/// so manyth of those, from the last. Throws an Error for more steps than those.
std::vector<int64_t> distilled_timesteps(const ScheduleConfig& config, int64_t steps);

}  // namespace kinema::schedulers
