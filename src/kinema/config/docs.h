#pragma once

#include <string>

namespace kinema::config {

/// docs/reference/config.md: a table of every key, and one of the keys that have no meaning here.
std::string markdown();

}  // namespace kinema::config
