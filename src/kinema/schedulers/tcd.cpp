#include <algorithm>
#include <cmath>

#include "kinema/schedulers/distilled.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

/// gamma of arXiv:2402.19159, algorithm 4: 0 adds no noise. diffusers' default.
constexpr float kGamma = 0.3F;

}  // namespace

/// DDIM's step to s = (1 - gamma) t', then noise up to t':
///
///     y = sqrt(a_s) x_0 + sqrt(1 - a_s) eps
///     x' = sqrt(a' / a_s) y + sqrt(1 - a' / a_s) z;  the last y is the result
Schedule tcd(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  const std::vector<float> all = alphas_cumprod(config.diffusion, config.num_train_timesteps);
  const std::vector<int64_t> timesteps = distilled_timesteps(config, steps);
  Schedule out{.config = config, .form = {.noise = true}};
  for (size_t i = 0; i < timesteps.size(); ++i) {
    const double a = all[static_cast<size_t>(timesteps[i])];
    check_has_signal(config, timesteps[i], a);
    const bool is_last = i + 1 == timesteps.size();
    const int64_t next = is_last ? 0 : timesteps[i + 1];
    const double at_s = all[static_cast<size_t>((1.0F - kGamma) * static_cast<float>(next))];
    const double signal = is_last ? 1.0 : std::sqrt(all[static_cast<size_t>(next)] / at_s);
    const Level level{.alpha = std::sqrt(a), .sigma = std::sqrt(1.0 - a)};
    const Linear data = data_of(config, level);
    const Linear noise = noise_prediction_of(config, level);
    const double spread = signal * std::sqrt(1.0 - at_s);
    out.timesteps.push_back(static_cast<float>(timesteps[i]));
    out.sigmas.push_back(static_cast<float>(sigma_of(std::max(a, 0x1p-24))));
    out.steps.push_back({.data_x = static_cast<float>(data.x),
                         .data_v = static_cast<float>(data.v),
                         .from_c = static_cast<float>(spread * noise.x),
                         .from_m0 = static_cast<float>(signal * std::sqrt(at_s)),
                         .from_v = static_cast<float>(spread * noise.v),
                         .from_noise = static_cast<float>(std::sqrt(1.0 - signal * signal))});
  }
  out.sigmas.push_back(0.0F);
  return out;
}

}  // namespace kinema::schedulers
