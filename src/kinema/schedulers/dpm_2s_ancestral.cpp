#include <cmath>

#include "kinema/core/error.h"
#include "kinema/schedulers/evaluations.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// DPM-Solver++ (2S) to sigma_down, then noise of sigma_up (Ancestral). Two evaluations in each
/// step but the last, the second at the middle m = sqrt(sigma sigma_down) of log sigma:
///
///     y = m / sigma x + (1 - m / sigma) x_0(x, sigma)
///     x' = down / sigma x + (1 - down / sigma) x_0(y, m) + up z
Schedule dpm_2s_ancestral(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  check(!is_flow(config),
        "[scheduler] DPM++ 2S a is a sampler of diffusions\n  use scheduler=dpmpp_2s for flows");
  Evaluations out(config, steps);
  out.schedule.form.noise = true;
  for (int64_t i = 0; i + 1 < out.steps(); ++i) {
    const double sigma = out.level(i);
    const Ancestral to = ancestral(sigma, out.level(i + 1));
    const double middle = std::sqrt(sigma * to.down);
    advance(out.at(i), middle / sigma);
    StepCoefficients& second = out.between(middle);
    second.correct_x = 0;
    second.correct_previous = 1;
    advance(second, to.down / sigma);
    second.from_noise = static_cast<float>(to.up);
  }
  out.end();
  return out.schedule;
}

}  // namespace kinema::schedulers
