#include "kinema/schedulers/evaluations.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// Two evaluations in each step but the last, with the derivative d(x, sigma) = (x - x_0) / sigma:
///
///     y = x + (sigma' - sigma) d(x, sigma)
///     x' = x + (sigma' - sigma) (d(x, sigma) + d(y, sigma')) / 2
Schedule heun(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  Evaluations out(config, steps);
  for (int64_t i = 0; i + 1 < out.steps(); ++i) {
    const double sigma = out.level(i);
    const double next = out.level(i + 1);
    const double step = next - sigma;
    advance(out.at(i), next / sigma);
    StepCoefficients& second = out.at(i + 1);
    second.correct_x = static_cast<float>(0.5 * step / next);
    second.correct_previous = static_cast<float>(1.0 + 0.5 * step / sigma);
    second.correct_m0 = static_cast<float>(-0.5 * step / next);
    second.correct_m1 = static_cast<float>(-0.5 * step / sigma);
    second.from_c = 1;
  }
  out.end();
  return out.schedule;
}

}  // namespace kinema::schedulers
