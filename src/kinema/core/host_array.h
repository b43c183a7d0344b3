#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/shape.h"

namespace kinema {

/// A dense tensor in host memory, row-major, owned.
struct HostArray {
  Shape shape;
  std::vector<std::byte> bytes;

  HostArray() = default;
  /// Zeros.
  explicit HostArray(Shape s) : shape(std::move(s)), bytes(static_cast<size_t>(shape.bytes())) {}

  /// From values of the C++ type that matches `dtype` (float for F32, int64_t for S64, ...).
  template <typename T>
  static HostArray from(DType dtype, Dims dims, std::span<const T> values) {
    HostArray out(Shape{dtype, std::move(dims)});
    check(sizeof(T) * values.size() == out.bytes.size(), "[host_array] {} values do not fill {}",
          values.size(), to_string(out.shape));
    std::ranges::copy(std::as_bytes(values), out.bytes.begin());
    return out;
  }
  static HostArray f32(Dims dims, std::span<const float> values) {
    return from<float>(DType::F32, std::move(dims), values);
  }

  /// The elements as a C++ type of the same size; throws an Error if the sizes differ.
  template <typename T>
  std::span<const T> as() const {
    check(static_cast<int64_t>(sizeof(T)) == byte_size(shape.dtype),
          "[host_array] {} read as elements of {} bytes", to_string(shape), sizeof(T));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  std::span<T> as() {
    const auto view = std::as_const(*this).template as<T>();
    return {const_cast<T*>(view.data()), view.size()};
  }
};

/// Element-wise conversion between floating-point types (round to nearest even; overflow becomes
/// infinity, in F8E4M3FN NaN) and between integers; throws an Error for other pairs.
HostArray convert(const HostArray& x, DType dtype);

/// The same from bytes to bytes; both sides must hold the same number of elements.
void convert(std::span<const std::byte> from, DType from_dtype, std::span<std::byte> to,
             DType to_dtype);

}  // namespace kinema
