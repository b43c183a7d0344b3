#pragma once

// Private to the module.

#include <filesystem>

namespace kinema::serve {

/// True for something below the folder when all links are followed; false if either is not there.
bool lies_in(const std::filesystem::path& file, const std::filesystem::path& folder);

}  // namespace kinema::serve
