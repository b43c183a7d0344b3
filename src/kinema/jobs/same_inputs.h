#pragma once

#include <filesystem>
#include <string>

#include "kinema/data/source.h"
#include "kinema/job/job.h"
#include "kinema/pjrt/client.h"

/// Consistency checks of a job's processes, before anything takes long. They do nothing with one
/// process, and throw the errors of world::check_consistent.
namespace kinema::jobs {

/// Compares plugins and devices.
void check_same_devices(const pjrt::Client& client, const Job& job);
/// Throws an Error unless all processes see the folder, which they write together. It names those
/// that do not, and `key`, which sets the folder.
void check_shared_folder(const std::filesystem::path& folder, const std::string& key,
                         const Job& job);
/// Compares the number of samples, and the first one that is trained on.
void check_same_data(const data::Source& source, int64_t position, const Job& job);

}  // namespace kinema::jobs
