#pragma once

#include <cstdint>
#include <memory>

#include "kinema/environments/environment.h"

namespace kinema::environments {

/// Ends episodes after `steps` actions, in a state that is not terminal.
std::unique_ptr<Environment> with_time_limit(std::unique_ptr<Environment> environment,
                                             int64_t steps);

/// Takes each action `times` times, or until the episode ends; rewards are added.
std::unique_ptr<Environment> with_action_repeat(std::unique_ptr<Environment> environment,
                                                int64_t times);

}  // namespace kinema::environments
