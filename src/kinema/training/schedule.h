#pragma once

#include <cstdint>
#include <string>

namespace kinema::training {

/// Learning rate by the number of updates already made: linear from 0 over the warm-up, then `rate`
/// until its last steps, over which it falls to a fraction (and stays there):
///
///   line    rate (1 - u + u f)
///   cosine  rate (f + (1 - f) (1 + cos(pi u)) / 2)      arXiv:1608.03983, without restarts
///
/// with u from 0 to 1 over the fall and f the fraction. A line over a short last part is the
/// warmup-stable-decay schedule of arXiv:2404.06395.
struct Schedule {
  enum class Fall : uint8_t { LINE, COSINE };

  double learning_rate = 1e-5;
  /// Length that the fractions refer to.
  int64_t steps = 0;
  double warmup_fraction = 0.1;
  /// Part of the steps, at the end, over which the rate falls; 0 = stays constant for ever,
  /// negative = all steps behind the warm-up.
  double decay_fraction = 0.0;
  /// What is left of the rate at `steps` and beyond.
  double final_fraction = 0.0;
  Fall fall = Fall::LINE;

  int64_t warmup_steps() const;
  int64_t decay_steps() const;
  /// The rate of update `step` (0 for the first, which is 0 when there is a warm-up).
  double operator()(int64_t step) const;
};

/// `learning rate 1e-05 after 150 steps, falls from step 900 to 0 at step 1500`.
std::string describe(const Schedule& schedule);

}  // namespace kinema::training
