#include "kinema/allocator/next_malloc.h"

#include <dlfcn.h>

namespace kinema::allocator {
namespace {

template <typename Function>
void find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

NextMalloc found() {
  NextMalloc out;
  find(out.malloc, "malloc");
  find(out.calloc, "calloc");
  find(out.memalign, "memalign");
  find(out.realloc, "realloc");
  find(out.free, "free");
  find(out.usable_size, "malloc_usable_size");
  find(out.trim, "malloc_trim");  // glibc's alone: others have none
  return out;
}

}  // namespace

const NextMalloc& next_malloc() {
  // glibc's dlsym allocates only when it fails, so that the first malloc may come here.
  static const NextMalloc next = found();
  return next;
}

}  // namespace kinema::allocator
