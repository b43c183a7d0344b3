#pragma once

#include <cstdint>
#include <string>

namespace kinema::optimizers {

/// Learning rate by the number of earlier updates: linear from 0 during the warmup, then `rate`,
/// then a decay over the last steps to a fraction (constant after that):
///
///   rate (f + (1 - f) g(u))
///
///   line        g(u) = 1 - u
///   cosine      g(u) = (1 + cos(pi u)) / 2      arXiv:1608.03983
///   polynomial  g(u) = (1 - u)^power
///   rex         g(u) = (1 - u) / (1 - u / 2)    arXiv:2107.04197
///
/// with u from 0 to 1 during the decay and f the fraction. With several cycles u begins again at 0
/// in each of as many parts of the decay, each cycle_growth times as long as the one before; g is
/// then multiplied by cycle_peak for each earlier cycle (warm restarts, arXiv:1608.03983). A linear
/// decay over a short last part is the warmup-stable-decay schedule of arXiv:2404.06395.
struct Schedule {
  enum class DecayShape : uint8_t { LINE, COSINE, POLYNOMIAL, REX };

  double learning_rate = 1e-5;
  /// The length to which the fractions refer.
  int64_t steps = 0;
  double warmup_fraction = 0.1;
  /// Fraction of the steps, at the end, of the decay; 0 = no decay, negative = all steps after the
  /// warmup.
  double decay_fraction = 0.0;
  /// The fraction of the rate at `steps` and beyond.
  double final_fraction = 0.0;
  DecayShape decay_shape = DecayShape::LINE;
  double power = 1.0;
  int64_t cycles = 1;
  double cycle_growth = 1.0;
  double cycle_peak = 1.0;
  /// Adafactor's rate of update t, min(1e-2, 1 / sqrt(t)), or min(1e-6 t, 1 / sqrt(t)) with a
  /// warmup (arXiv:1804.04235), instead of all of the above.
  enum class RelativeStep : uint8_t { NONE, PLAIN, WARMUP };
  RelativeStep relative_step = RelativeStep::NONE;

  int64_t warmup_steps() const;
  int64_t decay_steps() const;
  /// The rate of update `step` (0 for the first, whose rate is 0 if there is a warmup).
  double operator()(int64_t step) const;
};

/// `learning rate 1e-05 after 150 steps, falls from step 900 to 0 at step 1500`.
std::string describe(const Schedule& schedule);

}  // namespace kinema::optimizers
