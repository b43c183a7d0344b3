#pragma once

#include <cstdint>

#include "kinema/core/dtype.h"

namespace kinema::kernels {

/// y = x * factor, rounded to the nearest BF16, ties to even; NaN stays NaN. Subnormal values may
/// become zero, as on processors with BF16.
void to_bf16(const float* x, int64_t n, float factor, uint16_t* y);

/// BF16 as F32; exact.
void from_bf16(const uint16_t* x, int64_t n, float* y);

/// sum += x.
void add_floats(const float* x, int64_t n, float* sum);

/// x += value.
void add_to_floats(float value, int64_t n, float* x);

/// `count` elements from index `at` on, F32 or BF16, as F32.
void read_floats(DType dtype, const char* from, int64_t at, int64_t count, float* to);

/// The inverse; BF16 is rounded.
void write_floats(DType dtype, const float* from, int64_t count, char* to, int64_t at = 0);

}  // namespace kinema::kernels
