#include <cmath>

#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// x' = x + (sigma' - sigma) (x - x_0) / sigma
Schedule euler(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  Schedule out = with_levels(config, exploding_levels(config, steps));
  const bool epsilon = noise_of(config) == Noise::DIFFUSION &&
                       config.diffusion.prediction_type == Prediction::EPSILON;
  for (size_t i = 0; i < out.timesteps.size(); ++i) {
    const double sigma = out.sigmas[i];
    const double step = out.sigmas[i + 1] - sigma;
    StepCoefficients k;
    if (epsilon) {
      // x_0 = x - sigma e, and the derivative (x - x_0) / sigma is e.
      k.input = static_cast<float>(1.0 / std::sqrt(sigma * sigma + 1.0));
      k.data_v = static_cast<float>(-sigma);
      k.from_c = 1;
      k.from_v = static_cast<float>(step);
    } else {
      const Denoiser model = denoiser_of(config, sigma);
      k.input = static_cast<float>(model.input);
      k.data_x = static_cast<float>(model.data.x);
      k.data_v = static_cast<float>(model.data.v);
      k.from_c = static_cast<float>(1.0 + step / sigma);
      k.from_m0 = static_cast<float>(-step / sigma);
    }
    out.steps.push_back(k);
  }
  return out;
}

}  // namespace kinema::schedulers
