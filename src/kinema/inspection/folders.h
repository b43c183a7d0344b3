#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kinema::inspection {

/// A checkpoint of a training run.
bool is_checkpoint(const std::filesystem::path& path);

/// A folder with a network's folder in it, but no model_index.json.
bool is_pipeline_without_index(const std::filesystem::path& path);

/// Files of a folder, in order of name.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& path);

/// Every record must be one that training reads. Returns how many there are.
int64_t check_records(const std::filesystem::path& path);
/// The same of a folder of nothing but TFRecords and notes; returns a line on it.
std::string check_records_folder(const std::filesystem::path& path);

}  // namespace kinema::inspection
