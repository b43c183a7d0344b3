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

/// How far a tensor may be from the reference. Elements may differ by
/// absolute + relative |expected| + of_largest max |expected|.
struct Limit {
  double absolute = 0;
  double relative = 0;
  double of_largest = 0;
  /// Limits the root mean square of the differences too.
  std::optional<double> rms = {};
  /// The same over the root mean square of the expected values.
  std::optional<double> rms_of_rms = {};
};

/// Limits by patterns of tensors' names, in which `*` is any text.
using LimitTable = std::vector<std::pair<std::string, Limit>>;

/// The limits of a case: those of a table, then those that the case states itself. `limits` of its
/// JSON maps patterns to objects of `absolute`, `relative`, `of_largest`, `rms`, `rms_of_rms`; it
/// must be there where there is no table.
class Limits {
 public:
  /// Which of several patterns of the JSON that match counts, as the cases' authors mean it.
  enum class Which : uint8_t { FIRST, LONGEST };
  explicit Limits(const io::Json& about, Which which = Which::FIRST, LimitTable table = {});

  /// The limit of the pattern that matches; of the table the first one. Throws an Error where no
  /// pattern matches: then the tensor is an input.
  Limit of(const std::string& tensor) const;
  /// A limit before those of the table.
  void put_first(const std::string& pattern, const Limit& limit) {
    table_.insert(table_.begin(), {pattern, limit});
  }

 private:
  Which which_;
  LimitTable table_;
  LimitTable stated_;
};

/// Whether `name` fits a pattern with `*` for any text.
bool matches(std::string_view pattern, std::string_view name);

/// Compares element by element in double; shapes may differ when the numbers of elements agree. A
/// value that is not finite where the reference is finite is a miss.
Row compare(const std::string& name, const std::string& tensor, const HostArray& actual,
            const HostArray& expected, const Limit& limit);

/// A row for something that could not be compared.
Row failed(const std::string& name, const std::string& tensor, const std::string& message);

/// A row for something this build has no code for.
Row unsupported(const std::string& name, const std::string& tensor = "");

}  // namespace kinema::verification
