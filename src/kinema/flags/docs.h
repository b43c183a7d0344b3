#pragma once

#include <string>

namespace kinema::flags {

/// docs/flags.md: every flag, rule and profile.
std::string markdown();

}  // namespace kinema::flags
