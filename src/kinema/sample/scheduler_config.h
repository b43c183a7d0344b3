#pragma once

#include <filesystem>

#include "kinema/io/json.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::sample {

/// Reads a `scheduler_config.json`. Of a class that is not known, what was learned and which
/// timesteps are visited (ScheduleConfig::unknown_class). Throws an Error naming file and key for a
/// value out of range, or a setting that would change the result and is not supported; that
/// DDIMScheduler clips samples is refused by who makes a schedule of it (schedulers::check_class),
/// so that another sampler may take its place.
schedulers::ScheduleConfig read_scheduler_config(const std::filesystem::path& file);

/// The same of what such a file holds, for a class that is known otherwise (`_class_name` is not
/// read). Throws an Error where the sampler would clip, too.
schedulers::ScheduleConfig schedule_of(schedulers::Sampler sampler, const io::Json& config);

/// The schedule with a sampler in place of that which it names, known or not.
schedulers::ScheduleConfig with_sampler(schedulers::ScheduleConfig schedule,
                                        schedulers::Sampler sampler);

/// A schedule as such a file holds it.
io::Json scheduler_json(const schedulers::ScheduleConfig& schedule);

}  // namespace kinema::sample
