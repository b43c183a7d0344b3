#include "kinema/allocator/block_pool.h"

#include <sys/mman.h>

#include <algorithm>

namespace kinema::allocator {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
// From this size on, rounding to huge pages wastes little at the ends of a block.
constexpr size_t kHugeFrom = 2 * kHugePage;
constexpr size_t kAlwaysIdle = size_t{8} << 20;

/// The part of a mapping from its first huge page on; the rest is unmapped.
void* trim_to_huge_page(void* start, size_t span, size_t size) {
  const size_t into_page = reinterpret_cast<uintptr_t>(start) % kHugePage;
  const size_t before = (kHugePage - into_page) % kHugePage;
  if (before != 0) munmap(start, before);
  char* const aligned = static_cast<char*>(start) + before;
  const size_t rest = span - before - size;
  if (rest != 0) munmap(aligned + size, rest);
  return aligned;
}

}  // namespace

void* BlockPool::take(size_t wanted) {
  const size_t size = (wanted + kPage - 1) / kPage * kPage;
  if (size < wanted) return nullptr;
  const std::lock_guard lock(mutex_);
  void* address = reuse(size);
  if (address == nullptr) address = map_fresh(size);
  return address;
}

bool BlockPool::give_back(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  const size_t size = found->second;
  live_.erase(found);
  live_bytes_ -= size;
  try {
    idle_.push_back({address, size});
    idle_bytes_ += size;
  } catch (const std::bad_alloc&) {
    munmap(address, size);
  }
  return true;
}

size_t BlockPool::size_of(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  return found == live_.end() ? 0 : found->second;
}

bool BlockPool::trim() {
  const std::lock_guard lock(mutex_);
  const bool any = !idle_.empty();
  release_oldest(idle_.size());
  return any;
}

BlockPool::Counts BlockPool::counts() {
  const std::lock_guard lock(mutex_);
  return {live_bytes_, most_live_bytes_, idle_bytes_, reused_, mapped_};
}

bool BlockPool::add_live(void* address, size_t size) {
  try {
    live_.emplace(address, size);
  } catch (const std::bad_alloc&) {
    return false;
  }
  live_bytes_ += size;
  most_live_bytes_ = std::max(most_live_bytes_, live_bytes_);
  return true;
}

// The smallest idle block that fits and wastes at most an eighth; among equals the youngest, whose
// pages are most likely still in the cache.
void* BlockPool::reuse(size_t size) {
  size_t best = idle_.size();
  for (size_t i = idle_.size(); i-- > 0;) {
    if (idle_[i].size < size || idle_[i].size > size + size / 8) continue;
    if (best == idle_.size() || idle_[i].size < idle_[best].size) best = i;
  }
  if (best == idle_.size()) return nullptr;
  const Block block = idle_[best];
  if (!add_live(block.address, block.size)) return nullptr;
  idle_.erase(idle_.begin() + static_cast<ptrdiff_t>(best));
  idle_bytes_ -= block.size;
  ++reused_;
  return block.address;
}

void* BlockPool::map_fresh(size_t size) {
  make_space_for(size);
  const bool huge = size >= kHugeFrom;
  const size_t span = huge ? size + kHugePage : size;
  void* start = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  void* address = huge ? trim_to_huge_page(start, span, size) : start;
  if (huge) madvise(address, size, MADV_HUGEPAGE);
  if (!add_live(address, size)) {
    munmap(address, size);
    return nullptr;
  }
  ++mapped_;
  return address;
}

// Releases the oldest first, until the remaining idle blocks and the new block fit the allowance:
// an eighth of the bytes in use, but no more than the earlier peak.
void BlockPool::make_space_for(size_t size) {
  const size_t used = live_bytes_ + size;
  const size_t unused = most_live_bytes_ > used ? most_live_bytes_ - used : 0;
  const size_t allowance = std::max(kAlwaysIdle, std::min(live_bytes_ / 8, unused));
  size_t count = 0;
  size_t left = idle_bytes_;
  while (count < idle_.size() && left + size > allowance) {
    left -= idle_[count++].size;
  }
  release_oldest(count);
}

void BlockPool::release_oldest(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    munmap(idle_[i].address, idle_[i].size);
    idle_bytes_ -= idle_[i].size;
  }
  idle_.erase(idle_.begin(), idle_.begin() + static_cast<ptrdiff_t>(count));
}

}  // namespace kinema::allocator
