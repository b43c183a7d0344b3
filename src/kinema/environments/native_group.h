#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kinema/environments/group.h"

namespace kinema::environments {

/// A group of environments in this process, one after another: end() steps them. They must have the
/// same spaces. For its state(), the group stores the actions of the current episodes and plays
/// these again in restore().
std::unique_ptr<Group> native_group(std::vector<std::unique_ptr<Environment>> environments,
                                    int64_t repeat = 1);

}  // namespace kinema::environments
