#pragma once

#include "kinema/io/json.h"
#include "kinema/models/dreamer/config.h"

namespace kinema::dreamer {

/// From the original's settings of an agent: `obs_space` and `act_space` by name (dtype, shape,
/// classes) and `agent` with the keys of its configuration. Throws an Error naming file and key of
/// a value that is missing or of another type.
AgentConfig parse_config(const io::Json& json);

}  // namespace kinema::dreamer
