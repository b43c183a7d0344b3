#pragma once

#include <string>

namespace kinema::cli {

/// What `kinema COMMAND --help` ends with: command lines to begin with. Empty for a command that
/// people do not call.
std::string examples(const std::string& command);

}  // namespace kinema::cli
