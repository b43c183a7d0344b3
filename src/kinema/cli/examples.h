#pragma once

#include <string>

namespace kinema::cli {

/// Example command lines at the end of `kinema COMMAND --help`. Empty for an internal command.
std::string examples(const std::string& command);

}  // namespace kinema::cli
