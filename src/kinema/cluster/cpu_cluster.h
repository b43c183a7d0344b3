#pragma once

#include <memory>

#include "kinema/pjrt/client.h"
#include "kinema/world/world.h"

namespace kinema::cluster {

/// What a client of CPU devices is opened with, which are dealt out to the processes of a world
/// (null: one process): programs over several devices are partitioned by XLA, in process 0 alone,
/// and their collectives are done here, between processes as messages. Sums are in the order of the
/// devices and have XLA's own bits. XLA's own collectives, which know one process, wait inside its
/// threads: where several are due at once and cores are few, all threads wait and none comes.
///
/// Called by all processes at the same point. A failure of the world ends what waits for messages.
pjrt::Processes cpu_processes(const std::shared_ptr<world::World>& world);

/// Seconds in which collectives of this process, so far, had nothing to do but wait for messages of
/// others: of several processes, the slowest waits least.
double seconds_waited();

}  // namespace kinema::cluster
