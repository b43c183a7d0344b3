#pragma once

#include <string>

#include "kinema/flags/effective.h"

namespace kinema::flags {

/// The text of an environment variable after the errors' remedies: their words are removed or
/// corrected and missing ones added. Words that are not flags are removed too.
std::string fixed(const EnvironmentFlags& list, const Effective& effective);

}  // namespace kinema::flags
