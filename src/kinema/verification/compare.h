#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/io/json.h"
#include "kinema/verification/verify.h"

namespace kinema::verification {

/// The allowed differences between a tensor and the reference. Elements may differ by absolute +
/// relative |expected| + of_largest max |expected|, or by any amount if these are 0 and a root mean
/// square is limited.
struct Limit {
  double absolute = 0;
  double relative = 0;
  double of_largest = 0;
  /// Also limits the root mean square of the differences.
  std::optional<double> rms = {};
  /// The same, divided by the root mean square of the expected values.
  std::optional<double> rms_of_rms = {};
};

/// Limits by patterns of tensor names, in which `*` matches any text.
using LimitTable = std::vector<std::pair<std::string, Limit>>;

/// The limits of a case: from a table, then from the case itself. `limits` of its JSON maps
/// patterns to objects of `absolute`, `relative`, `of_largest`, `rms`, `rms_of_rms`; it is required
/// without a table. `float64.worst` of its JSON is the reference's own rounding error, as a share
/// of a tensor's largest element: an exact result is as far from the reference, so `of_largest` of
/// the case is at least twice that.
class Limits {
 public:
  /// Which matching pattern of the JSON is used; it depends on the kind of case.
  enum class Which : uint8_t { FIRST, LONGEST };
  explicit Limits(const io::Json& about, Which which = Which::FIRST, LimitTable table = {});

  /// The limit of a tensor: the table's first match, else the JSON's. Throws an Error if no pattern
  /// matches: then the tensor is an input.
  Limit of(const std::string& tensor) const;
  /// Adds limits before the table's.
  void put_first(const LimitTable& limits) {
    table_.insert(table_.begin(), limits.begin(), limits.end());
  }

 private:
  Which which_;
  double reference_error_ = 0;
  LimitTable table_;
  LimitTable stated_;
};

/// True if `name` matches a pattern, in which `*` matches any text.
bool matches(std::string_view pattern, std::string_view name);

/// Compares element by element in double; shapes may differ if the numbers of elements are equal. A
/// value that is not finite, while the reference is, fails.
Row compare(const std::string& name, const std::string& tensor, const HostArray& actual,
            const HostArray& expected, const Limit& limit);

/// A row for a comparison that was not possible.
Row failed(const std::string& name, const std::string& tensor, const std::string& message);

/// A row for a case that this build does not support.
Row unsupported(const std::string& name, const std::string& tensor = "");

}  // namespace kinema::verification
