#include "kinema/environments/values.h"

#include <cmath>
#include <type_traits>

#include "kinema/core/error.h"

namespace kinema::environments {
namespace {

/// Of dtypes that groups have. `check(value)` throws for a value that a space does not have.
template <typename T, typename Check>
void check_each(const HostArray& values, int64_t count, std::span<const uint8_t> skip,
                const Check& check_value) {
  const std::span<const T> all = values.as<T>();
  const size_t row = count == 0 ? 0 : all.size() / static_cast<size_t>(count);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    if (skip.empty() || skip[i] == 0) {
      for (size_t j = 0; j < row; ++j) {
        check_value(i, j, all[i * row + j]);
      }
    }
  }
}

template <typename T>
void check_range(const HostArray& values, const Space& space, int64_t count, std::string_view what,
                 std::string_view name, std::span<const uint8_t> skip) {
  if constexpr (std::is_floating_point_v<T>) {
    // Limits are rounded as the values were, which keeps their order.
    const T low = static_cast<T>(space.low);
    const T high = static_cast<T>(space.high);
    check_each<T>(values, count, skip, [&](size_t i, size_t j, T value) {
      check(std::isfinite(value) && value >= low && value <= high,
            "[environments] {} `{}` of environment {} is {} at element {}, expected a number from "
            "{} to {}",
            what, name, i, value, j, space.low, space.high);
    });
  } else {
    check_each<T>(values, count, skip, [&](size_t i, size_t j, T value) {
      check(value >= space.low && value < space.high,
            "[environments] {} `{}` of environment {} is {} at element {}, expected an integer "
            "from {} to {}",
            what, name, i, value, j, space.low, space.high - 1);
    });
  }
}

}  // namespace

void check_values(const HostArray& values, const Space& space, int64_t count, std::string_view what,
                  std::string_view name, std::span<const uint8_t> skip) {
  Dims dims{count};
  dims.insert(dims.end(), space.shape.begin(), space.shape.end());
  const Shape expected{space.dtype, dims};
  check(values.shape == expected, "[environments] {} `{}` is {}, expected {}", what, name,
        to_string(values.shape), to_string(expected));
  switch (space.dtype) {
    case DType::F32:
      return check_range<float>(values, space, count, what, name, skip);
    case DType::S32:
      return check_range<int32_t>(values, space, count, what, name, skip);
    case DType::U8:
      if (space.low > 0.0 || space.high < 256.0) {
        check_range<uint8_t>(values, space, count, what, name, skip);
      }
      return;
    default:
      fail("[environments] {} `{}` is {}, expected f32, u8 or s32", what, name,
           to_string(values.shape));
  }
}

HostArray converted(const HostArray& x, DType dtype) {
  if (x.shape.dtype == dtype) {
    return x;
  }
  const auto as_bytes = [](HostArray array, DType other) {
    array.shape.dtype = other;
    return array;
  };
  if (x.shape.dtype == DType::PRED) {
    return convert(as_bytes(x, DType::U8), dtype);
  }
  if (dtype == DType::PRED) {
    return as_bytes(convert(x, DType::U8), DType::PRED);
  }
  return convert(x, dtype);
}

}  // namespace kinema::environments
