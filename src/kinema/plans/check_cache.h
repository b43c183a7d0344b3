#pragma once

#include <filesystem>
#include <optional>
#include <string>

/// Results of checks of kernels, each in a file of the cache folder.
namespace kinema::plans {

/// The cached result of a check: empty text if the kernels agree, else the reason; nothing if it is
/// not cached.
std::optional<std::string> read_check(const std::filesystem::path& file);

/// Does nothing if the file cannot be written.
void write_check(const std::filesystem::path& file, const std::string& problem);

}  // namespace kinema::plans
