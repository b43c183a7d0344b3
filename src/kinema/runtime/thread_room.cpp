#include "kinema/runtime/thread_room.h"

#include "kinema/core/parallel.h"
#include "kinema/core/thread_room.h"

namespace kinema::runtime {

void check_thread_room() {
  // Of the CPU plugin: two pools of a thread for each processor, and a few of its own.
  kinema::check_thread_room(2 * processor_threads() + 4, "XLA");
}

}  // namespace kinema::runtime
