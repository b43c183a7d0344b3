#pragma once

#include <filesystem>
#include <string>

namespace kinema::inspection {

/// Returns one line if training or sampling would accept the path; throws an Error with the reason
/// if not.
std::string accept(const std::filesystem::path& path);

/// True for paths that `contents` and `accept` leave to clip_table.
bool may_be_clips(const std::filesystem::path& path);

}  // namespace kinema::inspection
