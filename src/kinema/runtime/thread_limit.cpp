#include "kinema/runtime/thread_limit.h"

#include "kinema/core/parallel.h"
#include "kinema/core/thread_limit.h"

namespace kinema::runtime {

void check_thread_limit() {
  // Of the CPU plugin: two pools with one thread per processor, and a few other threads.
  kinema::check_thread_limit(2 * processor_threads() + 4, "XLA");
}

}  // namespace kinema::runtime
