#pragma once

#include <filesystem>
#include <string_view>

#include "kinema/io/json.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::sample {

/// The JSON of a `scheduler_config.json`; infinities, which diffusers writes and JSON does not
/// have, are null. A `class_name` that is not empty replaces its `_class_name`.
io::Json scheduler_file(const std::filesystem::path& file, std::string_view class_name = {});

/// Reads a `scheduler_config.json`; a `class_name` that is not empty replaces its `_class_name`.
/// For a class without a sampler in kinema, the result has the training's settings and the spacing
/// of timesteps (ScheduleConfig::unknown_class); the same if the sampler has an unsupported setting
/// (ScheduleConfig::unsupported).
///
/// Throws an Error with file and key for a class or a setting whose models are not supported
/// (schedulers::supported_scheduler_class), or a value out of range. The clipping of DDIMScheduler
/// becomes an Error only when a schedule is made (schedulers::check_class), because another sampler
/// may be requested.
schedulers::ScheduleConfig read_scheduler_config(const std::filesystem::path& file,
                                                 std::string_view class_name = {});

/// The same for the contents of such a file, for a given sampler (`_class_name` is not read). Also
/// throws an Error for an unsupported setting, and if the sampler would clip.
schedulers::ScheduleConfig schedule_of(schedulers::Sampler sampler, const io::Json& config);

/// The schedule with another sampler, whether its own is known or not.
schedulers::ScheduleConfig with_sampler(schedulers::ScheduleConfig schedule,
                                        schedulers::Sampler sampler);

/// The contents of a `scheduler_config.json` for a schedule.
io::Json scheduler_json(const schedulers::ScheduleConfig& schedule);

}  // namespace kinema::sample
