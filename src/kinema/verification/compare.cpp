#include "kinema/verification/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::verification {
namespace {

using Members = std::vector<io::Json::Member>;

std::vector<double> as_doubles(const HostArray& x) {
  if (is_float(x.shape.dtype)) {
    const HostArray wide = convert(x, DType::F64);
    return {wide.as<double>().begin(), wide.as<double>().end()};
  }
  const HostArray wide = convert(x, DType::S64);
  return {wide.as<int64_t>().begin(), wide.as<int64_t>().end()};
}

Limit read_limit(const io::Json& json) {
  const auto number = [&](const char* key) {
    const io::Json* found = json.find(key);
    return found == nullptr ? std::nullopt : std::optional(found->as_number());
  };
  return {.absolute = number("absolute").value_or(0.0),
          .relative = number("relative").value_or(0.0),
          .of_largest = number("of_largest").value_or(0.0),
          .rms = number("rms"),
          .rms_of_rms = number("rms_of_rms")};
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) {
    return pattern == name;
  }
  if (!name.starts_with(pattern.substr(0, star))) {
    return false;
  }
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= name.size(); ++at) {
    if (matches(rest, name.substr(at))) {
      return true;
    }
  }
  return false;
}

Limits::Limits(const io::Json& about, Which which, LimitTable table)
    : which_(which), table_(std::move(table)) {
  if (const io::Json* own = about.find("float64"); own != nullptr && own->is_object()) {
    const io::Json* worst = own->find("worst");
    reference_error_ = worst == nullptr ? 0.0 : worst->as_number();
  }
  const io::Json* stated = table_.empty() ? &about.at("limits") : about.find("limits");
  for (const auto& [pattern, limit] : stated != nullptr ? stated->members() : Members()) {
    if (!pattern.ends_with(" away from plain")) {  // limits of distances are used by their case
      stated_.emplace_back(pattern, read_limit(limit));
    }
  }
}

Limit Limits::of(const std::string& tensor) const {
  for (const auto& [pattern, limit] : table_) {
    if (matches(pattern, tensor)) {
      return limit;
    }
  }
  const std::pair<std::string, Limit>* found = nullptr;
  for (const auto& known : stated_) {
    const bool counts =
        found == nullptr || (which_ == Which::LONGEST && known.first.size() > found->first.size());
    if (counts && matches(known.first, tensor)) {
      found = &known;
    }
  }
  check(found != nullptr, "[verify] the case states no limit for {}", tensor);
  Limit limit = found->second;
  if (limit.of_largest > 0) {
    limit.of_largest = std::max(limit.of_largest, 2 * reference_error_);
  }
  return limit;
}

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
  // If only a root mean square is limited, elements are not.
  const bool limits_elements = row.limit > 0.0 || !(limit.rms || limit.rms_of_rms);
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
  const double expected_rms = std::sqrt(expected_squares / static_cast<double>(e.size()));
  for (const auto& [part, unit] : {std::pair{limit.rms, 1.0}, {limit.rms_of_rms, expected_rms}}) {
    if (part && !limits_elements) {
      row.limit = *part * unit;
    }
    if (part && row.rms_diff > *part * unit) {
      row.ok = false;
      row.message = fmt::format("root mean square difference {:.3g} is above {:.3g}", row.rms_diff,
                                *part * unit);
    }
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
