#pragma once

#include <cstdint>

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/float_loops.h"

namespace kinema::kernels {

/// Numbers as products of a dtype take them: themselves for F32, or rounded beside them for BF16.
class Narrow {
 public:
  Narrow(DType work, const float* wide, int64_t n, Buffer& buffer)
      : wide_(wide),
        narrow_(work != DType::BF16 ? nullptr
                                    : reinterpret_cast<uint16_t*>(buffer.at_least(
                                          sizeof(uint16_t) * static_cast<size_t>(n)))) {}

  /// Rounds those from `at` on; to be called while they are in the first cache.
  void round(int64_t at, int64_t n) const {
    if (narrow_ != nullptr) {
      to_bf16(wide_ + at, n, 1.0F, narrow_ + at);
    }
  }
  /// Where they lie once rounded; null where nothing is.
  uint16_t* narrow() const { return narrow_; }
  const char* data() const {
    return narrow_ == nullptr ? reinterpret_cast<const char*>(wide_)
                              : reinterpret_cast<const char*>(narrow_);
  }

 private:
  const float* wide_;
  uint16_t* narrow_;
};

}  // namespace kinema::kernels
