#pragma once

#include <span>

#include "kernels/interpreter/value.h"

namespace kinema::interpreter {

/// Row-major strides of an array of these sizes.
Dims strides_of(const Dims& dims);

/// Addresses of elements: `start` + sum of index x stride.
struct Walk {
  int64_t start = 0;
  Dims strides;
};

/// Copies `sizes` elements between two walks, or adds them.
enum class Copy : uint8_t { REPLACE, ADD };
void copy_strided(const Value& from, const Walk& read, Value* to, const Walk& write,
                  const Dims& sizes, Copy copy = Copy::REPLACE);

/// The walk over a block of an array of `dims` that starts at index `at`.
Walk walk_from(const Dims& dims, std::span<const int64_t> at);

/// c [m, n] += a [m, k] b [k, n], in f32.
void multiply_add(const float* a, const float* b, float* c, int64_t m, int64_t k, int64_t n);

}  // namespace kinema::interpreter
