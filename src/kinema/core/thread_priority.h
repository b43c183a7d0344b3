#pragma once

#include <sys/resource.h>

namespace kinema {

/// Lowers the priority of the calling thread, and of threads that it starts. For background work
/// such as writing checkpoints: the threads of a training step wait for one another, so one
/// background thread of equal priority slows all of them down. The lowest priority would never get
/// to run on a busy machine.
inline void lower_thread_priority() {
  constexpr int kNice = 5;
  ::setpriority(PRIO_PROCESS, 0, kNice);  // on Linux: of the calling thread; errors are ignored
}

}  // namespace kinema
