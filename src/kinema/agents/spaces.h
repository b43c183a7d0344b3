#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/agents/settings.h"
#include "kinema/environments/group.h"
#include "kinema/models/dreamer/config.h"

/// Between what environments say of their values and what an agent knows of them.
namespace kinema::agents {

/// The agent that settings describe, for environments with these spaces. Throws an Error for spaces
/// that it cannot see or act in.
dreamer::AgentConfig agent_config(const Settings& settings,
                                  const environments::Spaces& observations,
                                  const environments::Spaces& actions);

/// Integers of an agent begin at 0, those of environments at `low`. Observations [n, ...] as the
/// agent sees them.
HostArray for_agent(const environments::Space& space, const HostArray& values);
/// The agent's actions [n, ...] as an environment takes them.
HostArray for_environment(const environments::Space& space, const HostArray& values);

/// Row i of [n, ...], without that axis.
HostArray row_of(const HostArray& rows, int64_t i);
/// Sets row i of [n, ...] to zeros.
void clear_row(HostArray& rows, int64_t i);

}  // namespace kinema::agents
