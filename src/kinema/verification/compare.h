#pragma once

#include <optional>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/verification/verify.h"

namespace kinema::verification {

/// How far a tensor may be from the reference. Elements may differ by
/// absolute + relative |expected| + of_largest max |expected|; by any amount where these are 0 and
/// a root mean square is limited.
struct Limit {
  double absolute = 0;
  double relative = 0;
  double of_largest = 0;
  /// Limits the root mean square of the differences too.
  std::optional<double> rms = {};
  /// The same over the root mean square of the expected values.
  std::optional<double> rms_of_rms = {};
};

/// Compares element by element in double; shapes may differ when the numbers of elements agree. A
/// value that is not finite where the reference is, is a miss.
Row compare(const std::string& name, const std::string& tensor, const HostArray& actual,
            const HostArray& expected, const Limit& limit);

/// A row for something that could not be compared.
Row failed(const std::string& name, const std::string& tensor, const std::string& message);

/// A row for something this build has no code for.
Row unsupported(const std::string& name, const std::string& tensor = "");

}  // namespace kinema::verification
