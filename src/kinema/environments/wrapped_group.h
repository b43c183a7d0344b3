#pragma once

#include <memory>
#include <string>

#include "kinema/environments/group.h"

namespace kinema::environments {

/// A group as agents see it. From the environment outwards, as in the original DreamerV3:
///
/// 1. continuous actions with limits are mapped from [-1, 1] to them;
/// 2. dtypes become F32, U8 (which stays) and S32 (other integers and PRED);
/// 3. values are checked against their spaces;
/// 4. continuous actions are clipped to [-1, 1].
///
/// Errors begin with `task`. Throws an Error for names that observations and actions may not have.
std::unique_ptr<Group> wrapped(std::unique_ptr<Group> group, std::string task);

}  // namespace kinema::environments
