#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/graph/ops.h"

namespace kinema::kernels {

/// One batch loop of a product: its size and each operand's stride, in elements.
struct BatchLoop {
  int64_t size;
  int64_t a, b, c;
};

/// c[batch, m, n] = sum over k of a[batch, m, k] b[batch, k, n], operands with any strides as long
/// as one of their two matrix strides is 1. Strides count elements.
struct StridedDot {
  int64_t m, n, k;
  int64_t a_m, a_k;
  int64_t b_k, b_n;
  int64_t c_m, c_n;
  std::vector<BatchLoop> batch;

  double flops() const;
};

/// A dot_general as a strided product; empty if an operand's rows, columns or contracted axes have
/// no single stride. `a_strides` and `b_strides` are per logical axis, `c_strides` per axis of the
/// result (batch, rest of a, rest of b).
std::optional<StridedDot> strided_dot(const Dims& a, const Dims& a_strides, const Dims& b,
                                      const Dims& b_strides, const Dims& c_strides,
                                      const DotDims& dims);

/// Strides of a dense row-major array.
Dims dense_strides(const Dims& dims);

/// The product as the attribute `plan` of a custom call, and back.
std::vector<int64_t> to_words(const StridedDot& dot);
StridedDot from_words(const int64_t* words, int64_t count);

}  // namespace kinema::kernels
