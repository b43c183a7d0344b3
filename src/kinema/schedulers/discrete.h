#pragma once

#include "kinema/schedulers/schedule.h"

namespace kinema::schedulers {

/// The tables of EULER and DDIM, whose config says which.
Schedule discrete_schedule(const ScheduleConfig& config, int64_t num_inference_steps);

}  // namespace kinema::schedulers
