#pragma once

#include <cstdint>

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/float_loops.h"

namespace kinema::kernels {

/// F32 numbers as operands of a product: used directly for F32, rounded into a second buffer for
/// BF16.
class RoundedValues {
 public:
  RoundedValues(DType work, const float* wide, int64_t n, Buffer& buffer)
      : wide_(wide),
        narrow_(work != DType::BF16 ? nullptr
                                    : reinterpret_cast<uint16_t*>(buffer.at_least(
                                          sizeof(uint16_t) * static_cast<size_t>(n)))) {}

  /// Rounds `n` numbers from `at` on; best called while they are in L1.
  void round(int64_t at, int64_t n) const {
    if (narrow_ != nullptr) {
      to_bf16(wide_ + at, n, 1.0F, narrow_ + at);
    }
  }
  /// The rounded numbers; null for F32.
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
