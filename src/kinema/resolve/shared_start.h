#pragma once

#include <memory>

#include "kinema/config/config.h"
#include "kinema/flags/effective.h"
#include "kinema/job/job.h"

/// What several processes begin a job with. Does nothing in one process.
namespace kinema::resolve {

/// From here on, while the result lives, a process that is lost, or an error of one, ends the job
/// in all; who compiles is not taken for lost.
[[nodiscard]] std::shared_ptr<void> start_heartbeat(const config::Config& config, const Job& job);
/// That program, every key and the compiler's flags.
void check_same_start(const config::Config& config, const flags::Effective& flags, const Job& job);

}  // namespace kinema::resolve
