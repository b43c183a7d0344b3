#pragma once

#include <memory>

#include "kinema/pjrt/client.h"
#include "kinema/world/world.h"

namespace kinema::cluster {

/// The options of a client of CPU devices that are distributed over the processes of a world (null:
/// a single process). XLA partitions programs over several devices, in process 0 only. Their
/// collectives are computed here, by messages between processes. Sums are in the order of the
/// devices and bit-identical to XLA's. XLA's own collectives, which support one process, block
/// XLA's threads: if several run at the same time with few cores, they deadlock.
///
/// Collective. A failure of the world ends waits for messages.
pjrt::Processes cpu_processes(const std::shared_ptr<world::World>& world);

/// Seconds in which collectives of this process, so far, only waited for messages of others: the
/// slowest process waits least.
double seconds_waited();

}  // namespace kinema::cluster
