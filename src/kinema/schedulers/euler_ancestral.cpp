#include "kinema/schedulers/evaluations.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// Euler's step to sigma_down, then noise of sigma_up (Ancestral).
Schedule euler_ancestral(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  Schedule out = with_levels(config, exploding_levels(config, steps));
  out.form.noise = true;
  for (size_t i = 0; i < out.timesteps.size(); ++i) {
    const double sigma = out.sigmas[i];
    const Ancestral to = ancestral(sigma, out.sigmas[i + 1]);
    const Denoiser model = denoiser_of(config, sigma);
    StepCoefficients& step = out.steps.emplace_back(evaluation(model.input, model.data));
    advance(step, to.down / sigma);
    step.from_noise = static_cast<float>(to.up);
  }
  return out;
}

}  // namespace kinema::schedulers
