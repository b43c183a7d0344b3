#include <cmath>

#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// Euler's step to sigma_down, then noise of sigma_up, with
///
///     sigma_up^2 = sigma'^2 (sigma^2 - sigma'^2) / sigma^2,  sigma_down^2 = sigma'^2 - sigma_up^2
Schedule euler_ancestral(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  Schedule out = with_levels(config, exploding_levels(config, steps));
  out.form.noise = true;
  for (size_t i = 0; i < out.timesteps.size(); ++i) {
    const double sigma = out.sigmas[i];
    const double next = out.sigmas[i + 1];
    const double up = std::sqrt(next * next * (sigma * sigma - next * next) / (sigma * sigma));
    const double down = std::sqrt(next * next - up * up);
    const Denoiser model = denoiser_of(config, sigma);
    out.steps.push_back({.input = static_cast<float>(model.input),
                         .data_x = static_cast<float>(model.data.x),
                         .data_v = static_cast<float>(model.data.v),
                         .from_c = static_cast<float>(down / sigma),
                         .from_m0 = static_cast<float>(1.0 - down / sigma),
                         .from_noise = static_cast<float>(up)});
  }
  return out;
}

}  // namespace kinema::schedulers
