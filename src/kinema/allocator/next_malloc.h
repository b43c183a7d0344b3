#pragma once

#include <cstddef>
#include <new>

namespace kinema::allocator {

/// The functions that this program's malloc passes everything on to that the pool does not serve:
/// those of the next library in the order of the dynamic linker. That is one that LD_PRELOAD
/// names, or else tcmalloc, which the program links, or else glibc. A name fixed at link time
/// would not do: memory of a preloaded allocator's `operator new` would be freed by another one.
struct NextMalloc {
  void* (*malloc)(size_t size);
  void* (*calloc)(size_t count, size_t size);
  void* (*memalign)(size_t alignment, size_t size);
  void* (*realloc)(void* address, size_t size);
  void (*free)(void* address);
  size_t (*usable_size)(void* address);
  int (*trim)(size_t pad);
};

const NextMalloc& next_malloc();

/// Allocates the pool's bookkeeping from the next library: through the replaced functions it would
/// wait for the pool's own lock.
template <typename T>
struct NextAllocator {
  using value_type = T;
  NextAllocator() = default;
  template <typename Other>
  explicit(false) NextAllocator(const NextAllocator<Other>&) {}
  T* allocate(size_t count) {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): elements may be pointers
    void* address = next_malloc().memalign(alignof(T), count * sizeof(T));
    if (address == nullptr) throw std::bad_alloc();
    return static_cast<T*>(address);
  }
  void deallocate(T* address, size_t) { next_malloc().free(address); }
  bool operator==(const NextAllocator&) const = default;
};

}  // namespace kinema::allocator
