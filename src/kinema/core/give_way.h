#pragma once

#include <sys/resource.h>

namespace kinema {

/// Lowers the priority of the calling thread, and of those that it begins, for work beside steps:
/// a step's threads that wait for one another lose more than their share to one that takes turns
/// with them. Not to the last place: where other programs want the machine, it would never end.
inline void give_way() {
  constexpr int kNice = 5;
  ::setpriority(PRIO_PROCESS, 0, kNice);  // on Linux the calling thread's; if refused, as it was
}

}  // namespace kinema
