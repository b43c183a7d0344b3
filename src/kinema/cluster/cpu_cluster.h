#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kinema/pjrt/client.h"
#include "kinema/world/world.h"

namespace kinema::cluster {

/// What a client of CPU devices is opened with that are dealt out to the processes of a world:
/// programs over devices of several are partitioned by XLA, in process 0 alone, and their
/// collectives go between the processes as messages, whose sums have the bits of one process.
///
/// Called by all processes at the same point. `failed`: the error of another process, or an empty
/// string; ends what waits for messages.
pjrt::Processes cpu_processes(world::World& world, std::function<std::string()> failed = {});

}  // namespace kinema::cluster
