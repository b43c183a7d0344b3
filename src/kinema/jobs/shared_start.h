#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "kinema/data/source.h"
#include "kinema/flags/effective.h"
#include "kinema/job/job.h"
#include "kinema/pjrt/client.h"
#include "kinema/resolve/settings.h"

/// What the processes of a job must have alike, looked at before anything takes long. Does nothing
/// in one process; throws what world::check_alike throws.
namespace kinema::jobs {

/// Plugin and devices.
void check_same_devices(const pjrt::Client& client, const Job& job);
/// That all see the folder, which they write together. Throws an Error that names those who do not,
/// and `key`, which gave it.
void check_shared_folder(const std::filesystem::path& folder, const std::string& key,
                         const Job& job);
/// The samples: how many, and the first that is trained on.
void check_same_data(const data::Source& source, int64_t position, const Job& job);

}  // namespace kinema::jobs
