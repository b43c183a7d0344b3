#pragma once

#include <string>

namespace kinema::config {

/// The text of docs/reference/config.md: a table of all keys, and one of the keys without meaning
/// in kinema.
std::string markdown();

}  // namespace kinema::config
