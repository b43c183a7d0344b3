#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kinema::inspection {

/// True for a checkpoint of a training run.
bool is_checkpoint(const std::filesystem::path& path);

/// True for a folder with a network's folder in it, but without model_index.json.
bool is_pipeline_without_index(const std::filesystem::path& path);

/// Files of a folder, sorted by name.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& path);

/// Throws an Error unless every record is one that training can read. Returns their number.
int64_t check_records(const std::filesystem::path& path);
/// The same for a folder that contains only TFRecords and documentation; returns a summary line.
std::string check_records_folder(const std::filesystem::path& path);

}  // namespace kinema::inspection
