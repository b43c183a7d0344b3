#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kinema::training {

/// The progress of a run's evaluations, for early stopping.
struct EarlyStopping {
  std::optional<double> best;  // the lowest loss so far; none before the first finite one
  int64_t best_step = 0;       // completed steps at that evaluation
  int64_t without = 0;         // evaluations since then whose loss was not lower

  /// Adds an evaluation after `steps` completed steps. A non-finite loss is no improvement.
  void add(int64_t steps, double loss);
  /// True if `most` or more evaluations have not improved the best loss; never for 0.
  bool is_over(int64_t most) const { return most > 0 && without >= most; }
};

/// `3 evaluations without gain, the best loss is 0.1234, after step 40`.
std::string describe(const EarlyStopping& early_stopping);

}  // namespace kinema::training
