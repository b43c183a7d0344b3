#pragma once

#include <cstdint>

namespace kinema::kernels {

/// y = x * factor, rounded to the nearest BF16, ties to even; NaN stays NaN.
void to_bf16(const float* x, int64_t n, float factor, uint16_t* y);

/// The same numbers as F32.
void from_bf16(const uint16_t* x, int64_t n, float* y);

}  // namespace kinema::kernels
