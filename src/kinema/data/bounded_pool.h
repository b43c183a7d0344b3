#pragma once

#include <arrow/memory_pool.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace kinema::data {

/// Arrow's default pool with a limit, so that a file with false sizes cannot allocate any amount:
/// an allocation has at most 2 `file_bytes` + `spare_bytes`, all together 4 `file_bytes` +
/// `spare_bytes`. Beyond that arrow gets OutOfMemory.
///
/// Four times, because a column may be in memory as an uncompressed page, as the page's dictionary,
/// and as values in a buffer that was doubled.
class BoundedPool : public arrow::MemoryPool {
 public:
  BoundedPool(int64_t file_bytes, int64_t spare_bytes)
      : max_allocation_(2 * file_bytes + spare_bytes), max_total_(4 * file_bytes + spare_bytes) {}

  using MemoryPool::Allocate;
  using MemoryPool::Free;
  using MemoryPool::Reallocate;
  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override;
  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                           uint8_t** bytes) override;
  void Free(uint8_t* buffer, int64_t size, int64_t alignment) override;
  int64_t bytes_allocated() const override { return all_; }
  int64_t total_bytes_allocated() const override { return pool_->total_bytes_allocated(); }
  int64_t num_allocations() const override { return pool_->num_allocations(); }
  std::string backend_name() const override { return pool_->backend_name(); }

 private:
  /// Counts `more` bytes of an allocation of `size`, or returns OutOfMemory.
  arrow::Status take(int64_t size, int64_t more);

  arrow::MemoryPool* pool_ = arrow::default_memory_pool();
  int64_t max_allocation_;
  int64_t max_total_;
  std::atomic<int64_t> all_ = 0;
};

}  // namespace kinema::data
