#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "kinema/core/dtype.h"
#include "kinema/core/shape.h"

namespace kinema::environments {

/// The values that one entry of an observation or an action can have.
struct Space {
  DType dtype = DType::F32;
  Dims shape = {};
  double low = -std::numeric_limits<double>::infinity();
  /// The largest value; of integers, one above it, as in Python ranges.
  double high = std::numeric_limits<double>::infinity();

  /// Pixels [rows, columns, channels], U8.
  bool is_image() const { return dtype == DType::U8 && shape.size() == 3; }
  bool is_discrete() const { return !is_image() && (is_integer(dtype) || dtype == DType::PRED); }
  /// The number of values of a discrete space, which begin at `low`.
  int64_t classes() const { return dtype == DType::PRED ? 2 : static_cast<int64_t>(high - low); }
  bool operator==(const Space&) const = default;
};

using Spaces = std::map<std::string, Space>;

}  // namespace kinema::environments
