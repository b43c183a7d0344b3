#include "kinema/verification/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace kinema::verification {
namespace {

std::vector<double> as_doubles(const HostArray& x) {
  if (is_float(x.shape.dtype)) {
    const HostArray wide = convert(x, DType::F64);
    return {wide.as<double>().begin(), wide.as<double>().end()};
  }
  const HostArray wide = convert(x, DType::S64);
  return {wide.as<int64_t>().begin(), wide.as<int64_t>().end()};
}

}  // namespace

Row compare(const std::string& name, const std::string& tensor, const HostArray& actual,
            const HostArray& expected, const Limit& limit) {
  if (actual.shape.elements() != expected.shape.elements()) {
    return failed(name, tensor,
                  fmt::format("is {}, the reference is {}", to_string(actual.shape),
                              to_string(expected.shape)));
  }
  const std::vector<double> a = as_doubles(actual);
  const std::vector<double> e = as_doubles(expected);
  double largest = 0.0;
  for (const double x : e) {
    largest = std::max(largest, std::abs(x));
  }
  Row row{.name = name, .tensor = tensor, .ok = true};
  row.limit = limit.absolute + (limit.relative + limit.of_largest) * largest;
  // Where a root mean square alone is limited, elements are not.
  const bool limits_elements =
      row.limit > 0.0 || !(limit.rms.has_value() || limit.rms_of_rms.has_value());
  double squares = 0.0;
  double expected_squares = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double diff = std::abs(a[i] - e[i]);
    if (!std::isfinite(diff)) {
      row.ok = false;
      row.max_diff = std::numeric_limits<double>::infinity();
      row.rms_diff = row.max_diff;
      row.message = fmt::format("element {} is {}, the reference has {}", i, a[i], e[i]);
      return row;
    }
    squares += diff * diff;
    expected_squares += e[i] * e[i];
    row.max_diff = std::max(row.max_diff, diff);
    const double allowed =
        limit.absolute + limit.relative * std::abs(e[i]) + limit.of_largest * largest;
    if (limits_elements && diff > allowed && row.ok) {
      row.ok = false;
      row.message = fmt::format("element {} is {:.9g}, the reference has {:.9g}: more than {:.3g}",
                                i, a[i], e[i], allowed);
    }
  }
  row.rms_diff = a.empty() ? 0.0 : std::sqrt(squares / static_cast<double>(a.size()));
  if (limit.rms.has_value() && row.rms_diff > *limit.rms) {
    row.ok = false;
    row.message =
        fmt::format("root mean square difference {:.3g} is above {:.3g}", row.rms_diff, *limit.rms);
  }
  const double allowed_rms =
      limit.rms_of_rms.value_or(0.0) * std::sqrt(expected_squares / static_cast<double>(e.size()));
  if (!limits_elements) {
    row.limit = limit.rms.value_or(allowed_rms);
  }
  if (limit.rms_of_rms.has_value() && row.rms_diff > allowed_rms) {
    row.ok = false;
    row.message = fmt::format("root mean square difference {:.3g} is above {:.3g}", row.rms_diff,
                              allowed_rms);
  }
  return row;
}

Row failed(const std::string& name, const std::string& tensor, const std::string& message) {
  return {.name = name, .tensor = tensor, .ok = false, .compared = false, .message = message};
}

Row unsupported(const std::string& name, const std::string& tensor) {
  return {.name = name, .tensor = tensor, .unsupported = true};
}

}  // namespace kinema::verification
