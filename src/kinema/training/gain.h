#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kinema::training {

/// What a run's evaluations have come to, for one that ends where they gain nothing more.
struct Gain {
  std::optional<double> best;  // the lowest loss so far; none before the first that is finite
  int64_t best_step = 0;       // completed steps when that was
  int64_t without = 0;         // evaluations since whose loss was not below it

  /// An evaluation after so many completed steps. A loss that is not finite is no gain.
  void add(int64_t steps, double loss);
  /// Whether `most` evaluations or more have gained nothing; never for 0.
  bool is_over(int64_t most) const { return most > 0 && without >= most; }
};

/// `3 evaluations without gain, the best loss is 0.1234, after step 40`.
std::string describe(const Gain& gain);

}  // namespace kinema::training
