#pragma once

#include <string>

namespace kinema::flags {

/// docs/reference/flags.md: every flag, rule and profile.
std::string markdown();

}  // namespace kinema::flags
