#pragma once

#include <string_view>

#include "kinema/io/json.h"
#include "kinema/schedulers/samplers.h"

/// The settings of samplers in a scheduler_config.json, by the keys of diffusers' classes.
namespace kinema::sample {

/// Sets what the class of the sampler has as defaults, where classes differ.
void set_solver_defaults(schedulers::ScheduleConfig& out);
/// Reads the keys that the class of `out`'s sampler has; others are not read, as in diffusers. The
/// first value that is not supported becomes a message (ScheduleConfig::unsupported).
void read_solver_settings(const io::Json& config, schedulers::ScheduleConfig& out);

/// True for a key that the class of the schedule's sampler has, other than those of the training.
bool has_solver_setting(const schedulers::ScheduleConfig& schedule, std::string_view key);

/// Scaling and levels of EDM; throws an Error for a value of another type.
void read_edm(const io::Json& config, schedulers::Edm& out);

/// Writes the settings that are not the class's defaults.
void write_solver_settings(const schedulers::ScheduleConfig& schedule, io::Json& to);

}  // namespace kinema::sample
