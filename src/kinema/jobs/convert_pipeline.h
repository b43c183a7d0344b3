#pragma once

#include <filesystem>

#include "kinema/job/job.h"
#include "kinema/networks/convert.h"

namespace kinema::jobs {

/// True for a single file that holds a network and other models of its pipeline. Throws what
/// Checkpoint::open throws.
bool holds_pipeline(const std::filesystem::path& source);

/// Writes such a file as a pipeline's folder of diffusers, which must not be there yet: its models,
/// `model_index.json`, and `scheduler/` and tokenizers as they lie beside the file; without a
/// scheduler that of the released model. A notice names what the folder still lacks.
void convert_pipeline(const std::filesystem::path& source, const std::filesystem::path& target,
                      const networks::ConvertOptions& options, const Job& job);

}  // namespace kinema::jobs
