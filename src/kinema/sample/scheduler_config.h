#pragma once

#include <filesystem>

#include "kinema/io/json.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::sample {

/// Reads a `scheduler_config.json`. Throws an Error naming file and key for a class that is not
/// known, a value out of range, or a setting that would change the result and is not supported.
schedulers::ScheduleConfig read_scheduler_config(const std::filesystem::path& file);

/// The same of what such a file holds, for a class that is known otherwise (`_class_name` is not
/// read).
schedulers::ScheduleConfig schedule_of(schedulers::Sampler sampler, const io::Json& config);

/// A schedule as such a file holds it.
io::Json scheduler_json(const schedulers::ScheduleConfig& schedule);

}  // namespace kinema::sample
