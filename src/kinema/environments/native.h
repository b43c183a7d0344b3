#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kinema/environments/group.h"

namespace kinema::environments {

/// The tasks of environments in C++.
std::vector<std::string> native_tasks();

/// A group of them, stepped in this process. All take the settings `repeat` (each action, 1) and
/// `limit` (steps of an episode; 0: none). Throws an Error for an unknown task or setting.
std::unique_ptr<Group> open_native_group(const GroupOptions& options);

}  // namespace kinema::environments
