#include "kinema/data/bounded_pool.h"

#include <arrow/status.h>

namespace kinema::data {

arrow::Status BoundedPool::take(int64_t size, int64_t more) {
  const int64_t all = all_ += more;
  if (size <= max_allocation_ && all <= max_total_) {
    return arrow::Status::OK();
  }
  all_ -= more;
  return arrow::Status::OutOfMemory("more than the file can ask for");
}

arrow::Status BoundedPool::Allocate(int64_t size, int64_t alignment, uint8_t** out) {
  ARROW_RETURN_NOT_OK(take(size, size));
  const arrow::Status status = pool_->Allocate(size, alignment, out);
  if (!status.ok()) {
    all_ -= size;
  }
  return status;
}

arrow::Status BoundedPool::Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                                      uint8_t** bytes) {
  ARROW_RETURN_NOT_OK(take(new_size, new_size - old_size));
  const arrow::Status status = pool_->Reallocate(old_size, new_size, alignment, bytes);
  if (!status.ok()) {
    all_ -= new_size - old_size;
  }
  return status;
}

void BoundedPool::Free(uint8_t* buffer, int64_t size, int64_t alignment) {
  pool_->Free(buffer, size, alignment);
  all_ -= size;
}

}  // namespace kinema::data
