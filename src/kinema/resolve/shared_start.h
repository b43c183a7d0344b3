#pragma once

#include <memory>

#include "kinema/config/config.h"
#include "kinema/flags/effective.h"
#include "kinema/job/job.h"

/// Checks at the start of a job with several processes. They do nothing with one process.
namespace kinema::resolve {

/// Until the result is destroyed, a lost process or an error in one ends the job in all. A process
/// that compiles does not count as lost.
[[nodiscard]] std::shared_ptr<void> start_heartbeat(const config::Config& config, const Job& job);
/// Throws an Error unless all processes have the same program, keys and compiler flags.
void check_same_start(const config::Config& config, const flags::Effective& flags, const Job& job);

}  // namespace kinema::resolve
