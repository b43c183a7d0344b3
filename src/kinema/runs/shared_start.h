#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "kinema/config/config.h"
#include "kinema/data/source.h"
#include "kinema/flags/effective.h"
#include "kinema/pjrt/client.h"
#include "kinema/runs/job.h"

/// What the processes of a job must have alike, looked at before anything takes long. Does nothing
/// in one process; throws what world::check_alike throws.
namespace kinema::runs {

/// From here on, while the result lives, a process that is lost, or an error of one, ends the job
/// in all; who compiles is not taken for lost.
[[nodiscard]] std::shared_ptr<void> start_heartbeat(const config::Config& config, const Job& job);
/// Program, every key and the compiler's flags.
void check_same_start(const config::Config& config, const flags::Effective& flags, const Job& job);
/// Plugin and devices.
void check_same_devices(const pjrt::Client& client, const Job& job);
/// That all see the folder, which they write together. Throws an Error that names those who do not,
/// and `key`, which gave it.
void check_shared_folder(const std::filesystem::path& folder, const std::string& key,
                         const Job& job);
/// The samples: how many, and the first that is trained on.
void check_same_data(const data::Source& source, int64_t position, const Job& job);

}  // namespace kinema::runs
