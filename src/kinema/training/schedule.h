#pragma once

#include <cstdint>
#include <string>

namespace kinema::training {

/// Learning rate by the number of updates already made: linear from 0 over the warm-up, constant,
/// and, where asked for, linear down to a fraction at the end.
struct Schedule {
  double learning_rate = 1e-5;
  /// Length that the fractions refer to.
  int64_t steps = 0;
  double warmup_fraction = 0.1;
  /// Part of the steps, at the end, over which the rate falls; 0 = stays constant for ever.
  double decay_fraction = 0.0;
  /// What is left of the rate at `steps` and beyond.
  double final_fraction = 0.0;

  int64_t warmup_steps() const;
  int64_t decay_steps() const;
  /// The rate of update `step` (0 for the first, which is 0 when there is a warm-up).
  double operator()(int64_t step) const;
};

/// `learning rate 1e-05 after 150 steps, falls from step 900 to 0 at step 1500`.
std::string describe(const Schedule& schedule);

}  // namespace kinema::training
