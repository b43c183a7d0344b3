#pragma once

#include <string>

#include "flags/effective.h"

namespace kinema::flags {

/// The text of an environment variable without the words that errors are about. Words that are no
/// flags go too.
std::string fixed(const EnvironmentFlags& list, const Effective& effective);

}  // namespace kinema::flags
