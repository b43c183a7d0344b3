#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// x' = sqrt(a') x_0 + sqrt(1 - a') eps (arXiv:2010.02502, equation 12 with sigma 0)
Schedule ddim(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  const std::vector<float> all = alphas_cumprod(config.diffusion, config.num_train_timesteps);
  const Prediction predicts = config.diffusion.prediction_type;
  check(config.levels.timesteps.empty(),
        "[scheduler] DDIM takes no timesteps\n  use scheduler=euler, ddpm, lcm or tcd");
  Schedule out{.config = config};
  for (const int64_t t : whole_timesteps(config, steps)) {
    // Back by this distance, regardless of the next timestep in the list.
    const int64_t before = t - config.num_train_timesteps / steps;
    const double a = all[static_cast<size_t>(t)];
    check_has_signal(config, t, a);
    const double next = before >= 0                         ? all[static_cast<size_t>(before)]
                        : config.diffusion.set_alpha_to_one ? 1.0
                                                            : all.front();
    out.timesteps.push_back(static_cast<float>(t));
    out.sigmas.push_back(static_cast<float>(sigma_of(std::max(a, 0x1p-24))));
    const double signal = std::sqrt(a);
    const double noise = std::sqrt(1.0 - a);
    const double next_noise = std::sqrt(1.0 - next);
    StepCoefficients k;
    k.from_m0 = static_cast<float>(std::sqrt(next));
    switch (predicts) {
      case Prediction::EPSILON:
        k.data_x = static_cast<float>(1.0 / signal);
        k.data_v = static_cast<float>(-noise / signal);
        k.from_v = static_cast<float>(next_noise);
        break;
      case Prediction::V_PREDICTION:
        // eps = sqrt(a) v + sqrt(1 - a) x
        k.data_x = static_cast<float>(signal);
        k.data_v = static_cast<float>(-noise);
        k.from_c = static_cast<float>(next_noise * noise);
        k.from_v = static_cast<float>(next_noise * signal);
        break;
      case Prediction::SAMPLE:  // eps = (x - sqrt(a) v) / sqrt(1 - a)
        k.data_x = 0;
        k.data_v = 1;
        k.from_c = static_cast<float>(next_noise / noise);
        k.from_v = static_cast<float>(-next_noise * signal / noise);
        break;
    }
    out.steps.push_back(k);
  }
  out.sigmas.push_back(0.0F);
  return out;
}

}  // namespace kinema::schedulers
