#pragma once

#include <string>

#include "kinema/flags/effective.h"

namespace kinema::flags {

/// The text of an environment variable as the errors' remedies have it: words that they are about
/// go, or are written as they were meant, and what is to be set is added. Words that are no flags
/// go too.
std::string fixed(const EnvironmentFlags& list, const Effective& effective);

}  // namespace kinema::flags
