#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// x' = sqrt(a') b / (1 - a) x_0 + sqrt(a / a') (1 - a') / (1 - a) x + deviation z, b = 1 - a / a'
/// (arXiv:2006.11239, equation 7)
Schedule ddpm(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  const std::vector<float> all = alphas_cumprod(config.diffusion, config.num_train_timesteps);
  const std::vector<int64_t> timesteps = whole_timesteps(config, steps);
  Schedule out{.config = config, .form = {.noise = true}};
  for (size_t i = 0; i < timesteps.size(); ++i) {
    const double a = all[static_cast<size_t>(timesteps[i])];
    check_has_signal(config, timesteps[i], a);
    const double next = i + 1 < timesteps.size() ? all[static_cast<size_t>(timesteps[i + 1])] : 1.0;
    const double beta = 1.0 - a / next;
    const double small = std::max((1.0 - next) / (1.0 - a) * beta, 1e-20);
    const double variance = config.solver.variance == Variance::FIXED_LARGE ? beta : small;
    const Linear data = data_of(config, {.alpha = std::sqrt(a), .sigma = std::sqrt(1.0 - a)});
    out.timesteps.push_back(static_cast<float>(timesteps[i]));
    out.sigmas.push_back(static_cast<float>(sigma_of(std::max(a, 0x1p-24))));
    out.steps.push_back(
        {.data_x = static_cast<float>(data.x),
         .data_v = static_cast<float>(data.v),
         .from_c = static_cast<float>(std::sqrt(a / next) * (1.0 - next) / (1.0 - a)),
         .from_m0 = static_cast<float>(std::sqrt(next) * beta / (1.0 - a)),
         .from_noise = timesteps[i] > 0 ? static_cast<float>(std::sqrt(variance)) : 0.0F});
  }
  out.sigmas.push_back(0.0F);
  return out;
}

}  // namespace kinema::schedulers
