#pragma once

#include "kinema/schedulers/schedule.h"

namespace kinema::schedulers {

/// The tables of EULER or DDIM, according to config.sampler.
Schedule discrete_schedule(const ScheduleConfig& config, int64_t num_inference_steps);

}  // namespace kinema::schedulers
