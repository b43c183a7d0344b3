#include <cmath>

#include "kinema/schedulers/evaluations.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// DPM-Solver++ (SDE), two evaluations in each step but the last: at the middle m = sqrt(sigma
/// sigma') of log sigma, and the step with the data prediction there. Each goes to sigma_down and
/// adds noise of sigma_up (Ancestral):
///
///     y = down_m / sigma x + (1 - down_m / sigma) x_0(x, sigma) + up_m z_1
///     x' = down / sigma x + (1 - down / sigma) x_0(y, m) + up z_2
///
/// z_1 and z_2 are increments of one Brownian path in sigma, as in k-diffusion.
Schedule dpm_sde(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  Evaluations out(config, steps);
  out.schedule.form.noise = true;
  std::vector<double>& correlation = out.schedule.noise_correlation;
  for (int64_t i = 0; i + 1 < out.steps(); ++i) {
    const double sigma = out.level(i);
    const double next = out.level(i + 1);
    const double middle = std::sqrt(sigma * next);
    const Ancestral half = ancestral(sigma, middle);
    StepCoefficients& first = out.at(i);
    advance(first, half.down / sigma);
    first.from_noise = static_cast<float>(half.up);
    const Ancestral full = ancestral(sigma, next);
    StepCoefficients& second = out.between(middle);
    second.correct_x = 0;
    second.correct_previous = 1;
    advance(second, full.down / sigma);
    second.from_noise = static_cast<float>(full.up);
    correlation.insert(correlation.end(), {0.0, std::sqrt((sigma - middle) / (sigma - next))});
  }
  out.end();
  correlation.push_back(0.0);
  return out.schedule;
}

}  // namespace kinema::schedulers
