#pragma once

#include <filesystem>

#include "kinema/job/job.h"
#include "kinema/networks/convert.h"

namespace kinema::jobs {

/// True for a single file with a network and other models of its pipeline. Throws the errors of
/// Checkpoint::open.
bool holds_pipeline(const std::filesystem::path& source);

/// Writes such a file as a pipeline folder of diffusers, which must not exist yet: its models,
/// `model_index.json`, and the `scheduler/` and tokenizers that are next to the file; the default
/// scheduler is that of the released model. A log line names the parts that the folder still lacks.
void convert_pipeline(const std::filesystem::path& source, const std::filesystem::path& target,
                      const networks::ConvertOptions& options, const Job& job);

}  // namespace kinema::jobs
