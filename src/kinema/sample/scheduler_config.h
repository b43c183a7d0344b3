#pragma once

#include <filesystem>
#include <string_view>

#include "kinema/io/json.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::sample {

/// A `scheduler_config.json` as it is; infinities, which diffusers writes and JSON does not have,
/// are null. `class_name`, unless it is empty, takes the place of its `_class_name`.
io::Json scheduler_file(const std::filesystem::path& file, std::string_view class_name = {});

/// Reads a `scheduler_config.json`, in which `class_name`, unless it is empty, takes the place of
/// its `_class_name`. Of a class that is no sampler here, what was learned and which timesteps are
/// visited (ScheduleConfig::unknown_class); the same where the sampler has a setting that is not
/// supported (ScheduleConfig::unsupported).
///
/// Throws an Error naming file and key for a class or a setting whose models are not supported
/// (schedulers::supported_scheduler_class), or a value out of range. That DDIMScheduler clips
/// samples is refused by who makes a schedule of it (schedulers::check_class), so that another
/// sampler may take its place.
schedulers::ScheduleConfig read_scheduler_config(const std::filesystem::path& file,
                                                 std::string_view class_name = {});

/// The same of what such a file holds, for a class that is known otherwise (`_class_name` is not
/// read). Throws an Error for a setting that is not supported, too, and where the sampler would
/// clip.
schedulers::ScheduleConfig schedule_of(schedulers::Sampler sampler, const io::Json& config);

/// The schedule with a sampler in place of that which it names, known or not.
schedulers::ScheduleConfig with_sampler(schedulers::ScheduleConfig schedule,
                                        schedulers::Sampler sampler);

/// A schedule as such a file holds it.
io::Json scheduler_json(const schedulers::ScheduleConfig& schedule);

}  // namespace kinema::sample
