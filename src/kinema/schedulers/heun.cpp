#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// Two evaluations in each step but the last, with the derivative d(x, sigma) = (x - x_0) / sigma:
///
///     y = x + (sigma' - sigma) d(x, sigma)
///     x' = x + (sigma' - sigma) (d(x, sigma) + d(y, sigma')) / 2
Schedule heun(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  const Ladder ladder = exploding_levels(config, steps);
  Schedule out{.config = config, .initial_scale = static_cast<float>(ladder.initial_scale)};
  const auto evaluate = [&](size_t level) -> StepCoefficients& {
    out.sigmas.push_back(static_cast<float>(ladder.sigmas[level]));
    out.timesteps.push_back(static_cast<float>(ladder.timesteps[level]));
    const Denoiser model = denoiser_of(config, out.sigmas.back());
    return out.steps.emplace_back(StepCoefficients{.input = static_cast<float>(model.input),
                                                   .data_x = static_cast<float>(model.data.x),
                                                   .data_v = static_cast<float>(model.data.v)});
  };
  for (size_t i = 0; i < ladder.timesteps.size(); ++i) {
    const double sigma = static_cast<float>(ladder.sigmas[i]);
    const double next = static_cast<float>(ladder.sigmas[i + 1]);
    const double step = next - sigma;
    StepCoefficients& first = evaluate(i);
    first.from_c = static_cast<float>(1.0 + step / sigma);
    first.from_m0 = static_cast<float>(-step / sigma);
    if (i + 1 == ladder.timesteps.size()) {
      break;
    }
    StepCoefficients& second = evaluate(i + 1);
    second.correct_x = static_cast<float>(0.5 * step / next);
    second.correct_previous = static_cast<float>(1.0 + 0.5 * step / sigma);
    second.correct_m0 = static_cast<float>(-0.5 * step / next);
    second.correct_m1 = static_cast<float>(-0.5 * step / sigma);
    second.from_c = 1;
  }
  out.sigmas.push_back(static_cast<float>(ladder.sigmas.back()));
  return out;
}

}  // namespace kinema::schedulers
