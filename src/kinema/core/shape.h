#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/core/dtype.h"

namespace kinema {

using Dims = std::vector<int64_t>;

/// One axis of a tensor; a type of its own so that axes and sizes cannot be swapped. Negative
/// counts from the last axis.
struct Axis {
  int64_t index;
  explicit constexpr Axis(int64_t i) : index(i) {}
};

/// Element type and sizes, outermost first.
struct Shape {
  DType dtype = DType::F32;
  Dims dims;

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  /// Number of elements; 1 for a scalar.
  int64_t elements() const;
  int64_t bytes() const { return elements() * byte_size(dtype); }
  bool operator==(const Shape&) const = default;
};

/// `bf16[1,20,128]`, for messages.
std::string to_string(const Shape& shape);

/// `[1,20,128]`, for messages.
std::string to_string(const Dims& dims);

/// `tensor<1x20x128xbf16>`, as StableHLO writes it.
std::string mlir_type(const Shape& shape);

/// The axis as 0 <= i < rank; throws an Error that names `op` and the shape if it is outside.
int64_t resolve_axis(Axis axis, const Shape& shape, const char* op);

/// Product of sizes; throws an Error if one is negative or the product overflows int64.
int64_t checked_elements(const Dims& dims);

}  // namespace kinema
