#pragma once

#include <filesystem>
#include <string>

namespace kinema::inspection {

/// One line when training or sampling would accept the path; throws an Error that says why not.
std::string accept(const std::filesystem::path& path);

/// Whether `contents` and `accept` leave a path to clip_table.
bool may_be_clips(const std::filesystem::path& path);

}  // namespace kinema::inspection
