#include "kinema/runtime/thread_room.h"

#include "kinema/core/parallel.h"
#include "kinema/core/thread_room.h"

namespace kinema::runtime {

void check_thread_room() {
  // Of the CPU plugin: two pools with one thread per processor, and a few other threads.
  kinema::check_thread_room(2 * processor_threads() + 4, "XLA");
}

}  // namespace kinema::runtime
