#pragma once

#include <cstdint>
#include <functional>

#include "kinema/schedulers/levels.h"

/// Parts of samplers that evaluate the model between levels, of samples x_0 + sigma eps.
namespace kinema::schedulers {

/// A step that goes below the next level and returns to it with new noise, or, if not ancestral, to
/// the next level without noise:
///
///     up^2 = sigma'^2 (sigma^2 - sigma'^2) / sigma^2,  down^2 = sigma'^2 - up^2
struct Ancestral {
  double up, down;
};
Ancestral ancestral(double sigma, double next);

/// Sets x' = ratio c + (1 - ratio) m0: the exponential integrator's first order, where `ratio` is
/// the quotient of the two levels.
void advance(StepCoefficients& step, double ratio);

/// A schedule to which evaluations are appended. Levels are rounded to float32.
class Evaluations {
 public:
  Evaluations(const ScheduleConfig& config, int64_t steps);

  int64_t steps() const { return static_cast<int64_t>(ladder_.timesteps.size()); }
  /// The level at the start of a step; that of steps() ends the run.
  double level(int64_t step) const { return static_cast<float>(ladder_.sigmas[step]); }

  /// Appends an evaluation at the level of a step. m0 is its data prediction. The reference is
  /// valid until the next evaluation.
  StepCoefficients& at(int64_t step) { return append(level(step), ladder_.timesteps[step]); }
  /// Appends an evaluation at a level between those of steps.
  StepCoefficients& between(double sigma) { return append(sigma, timestep_of_(sigma)); }
  /// Appends the last evaluation: Euler's step to the last level.
  void end();

  Schedule schedule;

 private:
  StepCoefficients& append(double sigma, double timestep);

  Ladder ladder_;
  std::function<double(double sigma)> timestep_of_;
};

}  // namespace kinema::schedulers
