#include <algorithm>
#include <cmath>

#include "kinema/schedulers/distilled.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// f = c_out x_0 + c_skip x, with s = timestep_scaling t and
///
///     c_skip = 1/4 / (s^2 + 1/4),  c_out = s / sqrt(s^2 + 1/4)
///
/// then new noise: x' = sqrt(a') f + sqrt(1 - a') z (arXiv:2310.04378, algorithm 3); the last f is
/// the result.
Schedule lcm(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  const std::vector<float> all = alphas_cumprod(config.diffusion, config.num_train_timesteps);
  const std::vector<int64_t> timesteps = distilled_timesteps(config, steps);
  Schedule out{.config = config, .form = {.noise = true}};
  for (size_t i = 0; i < timesteps.size(); ++i) {
    const double a = all[static_cast<size_t>(timesteps[i])];
    check_has_signal(config, timesteps[i], a);
    const bool is_last = i + 1 == timesteps.size();
    const double next = is_last ? 1.0 : all[static_cast<size_t>(timesteps[i + 1])];
    const Linear data = data_of(config, {.alpha = std::sqrt(a), .sigma = std::sqrt(1.0 - a)});
    const double scaled = config.solver.timestep_scaling * static_cast<double>(timesteps[i]);
    const double sum = scaled * scaled + 0.25;
    out.timesteps.push_back(static_cast<float>(timesteps[i]));
    out.sigmas.push_back(static_cast<float>(sigma_of(std::max(a, 0x1p-24))));
    out.steps.push_back({.data_x = static_cast<float>(data.x),
                         .data_v = static_cast<float>(data.v),
                         .from_c = static_cast<float>(std::sqrt(next) * 0.25 / sum),
                         .from_m0 = static_cast<float>(std::sqrt(next) * scaled / std::sqrt(sum)),
                         .from_noise = static_cast<float>(std::sqrt(1.0 - next))});
  }
  out.sigmas.push_back(0.0F);
  return out;
}

}  // namespace kinema::schedulers
