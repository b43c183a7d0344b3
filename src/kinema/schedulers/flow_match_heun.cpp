#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// Two evaluations of the velocity in each step but the last, which ends at sigma' = 0:
///
///     y = x + (sigma' - sigma) v(x, sigma)
///     x' = x + (sigma' - sigma) (v(x, sigma) + v(y, sigma')) / 2
///        = (x + y) / 2 + (sigma' - sigma) v(y, sigma') / 2
Schedule flow_match_heun(const ScheduleConfig& config, int64_t steps, int64_t tokens) {
  const Ladder levels = from_first_step(config, flow_match_levels(config, steps, tokens));
  Schedule out{.config = config};
  const auto evaluate = [&](size_t level) -> StepCoefficients& {
    const auto sigma = static_cast<float>(levels.sigmas[level]);
    out.sigmas.push_back(sigma);
    out.timesteps.push_back(static_cast<float>(levels.timesteps[level]));
    return out.steps.emplace_back(StepCoefficients{.data_v = -sigma, .from_c = 1});
  };
  for (size_t i = 0; i < levels.timesteps.size(); ++i) {
    const float step =
        static_cast<float>(levels.sigmas[i + 1]) - static_cast<float>(levels.sigmas[i]);
    evaluate(i).from_v = step;
    if (i + 1 < levels.timesteps.size()) {
      StepCoefficients& second = evaluate(i + 1);
      second.correct_x = 0.5F;
      second.correct_previous = 0.5F;
      second.from_v = 0.5F * step;
    }
  }
  out.sigmas.push_back(static_cast<float>(levels.sigmas.back()));
  return out;
}

}  // namespace kinema::schedulers
