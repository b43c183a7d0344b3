#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "kinema/core/error.h"

namespace kinema::kernels {

/// A kernel's working memory. Growing discards its contents.
class Buffer {
 public:
  char* at_least(size_t bytes) {
    if (bytes > size_) {
      data_.reset();
      data_.reset(static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
      size_ = data_ ? bytes : 0;
      check(data_ != nullptr, "[cpu kernel] no memory for {} bytes", bytes);
    }
    return data_.get();
  }
  float* floats(int64_t count) {
    return reinterpret_cast<float*>(at_least(static_cast<size_t>(count) * sizeof(float)));
  }
  char* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  std::unique_ptr<char, Free> data_;
  size_t size_ = 0;
};

}  // namespace kinema::kernels
