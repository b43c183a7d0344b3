#include <cmath>

#include "kinema/schedulers/evaluations.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

/// Two evaluations in each step but the last, with the derivative d(x, sigma) = (x - x_0) / sigma;
/// the second at the middle m = sqrt(sigma sigma_down) of log sigma:
///
///     y = x + (m - sigma) d(x, sigma)
///     x' = x + (sigma_down - sigma) d(y, m) + sigma_up z
///
/// where sigma_down is sigma', and sigma_up 0, without new noise.
Schedule midpoint(const ScheduleConfig& config, int64_t steps, bool is_ancestral) {
  Evaluations out(config, steps);
  out.schedule.form.noise = is_ancestral;
  for (int64_t i = 0; i + 1 < out.steps(); ++i) {
    const double sigma = out.level(i);
    const double next = out.level(i + 1);
    const Ancestral to = is_ancestral ? ancestral(sigma, next) : Ancestral{.up = 0.0, .down = next};
    const double middle = std::sqrt(sigma * to.down);
    advance(out.at(i), middle / sigma);
    const double step = (to.down - sigma) / middle;
    StepCoefficients& second = out.between(middle);
    second.correct_x = static_cast<float>(step);
    second.correct_previous = 1;
    second.correct_m0 = static_cast<float>(-step);
    second.from_c = 1;
    second.from_noise = static_cast<float>(to.up);
  }
  out.end();
  return out.schedule;
}

}  // namespace

Schedule kdpm2(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  return midpoint(config, steps, false);
}

Schedule kdpm2_ancestral(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  return midpoint(config, steps, true);
}

}  // namespace kinema::schedulers
