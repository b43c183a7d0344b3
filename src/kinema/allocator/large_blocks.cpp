#include "kinema/allocator/large_blocks.h"

#if KINEMA_WITH_LARGE_BLOCKS

#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include "kinema/allocator/block_pool.h"
#include "kinema/allocator/next_malloc.h"

namespace kinema::allocator {
namespace {

constexpr size_t kSmallest = size_t{256} << 10;

// Null until keep_large_blocks. Never destroyed: memory is freed until the process ends.
std::atomic<BlockPool*> the_pool = nullptr;

BlockPool* make_pool() {
  alignas(BlockPool) static std::byte storage[sizeof(BlockPool)];
  static BlockPool* const pool = std::construct_at(reinterpret_cast<BlockPool*>(storage));
  pthread_atfork([] { pool->mutex().lock(); }, [] { pool->mutex().unlock(); },
                 [] { pool->mutex().unlock(); });
  return pool;
}

/// The pool if it may own the address, otherwise null.
BlockPool* pool_of(void* address) {
  if (reinterpret_cast<uintptr_t>(address) % BlockPool::kPage != 0 || address == nullptr) {
    return nullptr;
  }
  return the_pool.load(std::memory_order_acquire);
}

void* aligned(size_t alignment, size_t size) {
  BlockPool* pool = the_pool.load(std::memory_order_acquire);
  if (pool != nullptr && size >= kSmallest && alignment <= BlockPool::kPage &&
      std::has_single_bit(alignment)) {
    if (void* address = pool->take(size)) return address;
  }
  return next_malloc().memalign(alignment, size);
}

}  // namespace

bool keep_large_blocks() {
  static BlockPool* const pool = make_pool();
  the_pool.store(pool, std::memory_order_release);
  return true;
}

LargeBlocks large_blocks() {
  BlockPool* pool = the_pool.load(std::memory_order_acquire);
  if (pool == nullptr) return {};
  const BlockPool::Counts counts = pool->counts();
  return {static_cast<int64_t>(counts.live_bytes), static_cast<int64_t>(counts.most_live_bytes),
          static_cast<int64_t>(counts.idle_bytes), counts.reused, counts.mapped};
}

}  // namespace kinema::allocator

namespace allocator = kinema::allocator;
using allocator::BlockPool;

extern "C" {

void* malloc(size_t size) noexcept { return allocator::next_malloc().malloc(size); }

void* calloc(size_t count, size_t size) noexcept {
  return allocator::next_malloc().calloc(count, size);
}

void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return allocator::aligned(alignment, size);
}

void* memalign(size_t alignment, size_t size) noexcept {
  return allocator::aligned(alignment, size);
}

int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  if (!std::has_single_bit(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  void* address = allocator::aligned(alignment, size);
  if (address == nullptr) return ENOMEM;
  *out = address;
  return 0;
}

void* valloc(size_t size) noexcept { return allocator::aligned(BlockPool::kPage, size); }

void* pvalloc(size_t size) noexcept {
  const size_t pages = (size + BlockPool::kPage - 1) / BlockPool::kPage;
  if (size != 0 && pages == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  return allocator::aligned(BlockPool::kPage, std::max<size_t>(pages, 1) * BlockPool::kPage);
}

void free(void* address) noexcept {
  BlockPool* pool = allocator::pool_of(address);
  if (pool == nullptr || !pool->give_back(address)) allocator::next_malloc().free(address);
}

void* realloc(void* address, size_t size) noexcept {
  BlockPool* pool = allocator::pool_of(address);
  const size_t held = pool == nullptr ? 0 : pool->size_of(address);
  if (held == 0) return allocator::next_malloc().realloc(address, size);
  void* moved = size == 0 ? nullptr : allocator::next_malloc().malloc(size);
  if (moved != nullptr) std::memcpy(moved, address, std::min(held, size));
  if (moved != nullptr || size == 0) pool->give_back(address);
  return moved;
}

size_t malloc_usable_size(void* address) noexcept {
  BlockPool* pool = allocator::pool_of(address);
  const size_t held = pool == nullptr ? 0 : pool->size_of(address);
  if (held != 0) return held;
  return allocator::next_malloc().usable_size(address);
}

int malloc_trim(size_t pad) noexcept {
  BlockPool* pool = allocator::the_pool.load(std::memory_order_acquire);
  const bool trimmed = pool != nullptr && pool->trim();
  return allocator::next_malloc().trim(pad) != 0 || trimmed ? 1 : 0;
}

}  // extern "C"

#else

namespace kinema::allocator {

bool keep_large_blocks() { return false; }
LargeBlocks large_blocks() { return {}; }

}  // namespace kinema::allocator

#endif
