#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kinema/allocator/next_malloc.h"

namespace kinema::allocator {

/// Blocks of whole pages, huge ones where the kernel offers them. Freed blocks stay idle and are
/// reused by size. When memory is mapped, at most an eighth of the bytes in use may be idle, and in
/// total no more than the earlier peak, or 8 MiB: the pool does not raise the program's peak.
class BlockPool {
 public:
  static constexpr size_t kPage = 4096;

  /// Null when the kernel has no more memory. `wanted` in bytes.
  void* take(size_t wanted);
  /// False when the address is not the start of a block of this pool.
  bool give_back(void* address);
  /// 0 when the address is not the start of a block of this pool.
  size_t size_of(void* address);
  /// Returns idle blocks to the system; true when there were some.
  bool trim();

  struct Counts {
    size_t live_bytes = 0;
    size_t most_live_bytes = 0;
    size_t idle_bytes = 0;
    int64_t reused = 0;
    int64_t mapped = 0;
  };
  Counts counts();

  /// Locked during a fork, so that the child finds consistent bookkeeping.
  std::mutex& mutex() { return mutex_; }

 private:
  struct Block {
    void* address;
    size_t size;
  };

  bool add_live(void* address, size_t size);
  void* reuse(size_t size);
  void* map_fresh(size_t size);
  void make_space_for(size_t size);
  void release_oldest(size_t count);

  std::mutex mutex_;
  std::unordered_map<void*, size_t, std::hash<void*>, std::equal_to<>,
                     NextAllocator<std::pair<void* const, size_t>>>
      live_;
  std::vector<Block, NextAllocator<Block>> idle_;  // oldest first
  size_t live_bytes_ = 0;
  size_t most_live_bytes_ = 0;
  size_t idle_bytes_ = 0;
  int64_t reused_ = 0;
  int64_t mapped_ = 0;
};

}  // namespace kinema::allocator
