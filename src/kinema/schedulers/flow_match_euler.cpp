#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

/// Sigmas before the shift: given ones, even ones from 1 to 1/steps (Flux), or, without those, even
/// timesteps between the ends of the training table, which is shifted already.
std::vector<double> unshifted(const ScheduleConfig& config, int64_t steps) {
  const auto train = static_cast<double>(config.num_train_timesteps);
  std::vector<double> out = config.levels.sigmas;
  if (!config.levels.timesteps.empty()) {
    for (const double t : config.levels.timesteps) {
      out.push_back(t / train);
    }
  } else if (out.empty() && config.even_sigmas) {
    out = linspace(1.0, 1.0 / static_cast<double>(steps), steps);
  } else if (out.empty()) {
    const TrainingTable table = euler_training_table(config.shift, config.num_train_timesteps);
    out = linspace(static_cast<double>(table.sigmas.front()) * train,
                   static_cast<double>(table.sigmas.back()) * train, steps);
    for (double& t : out) {
      t /= train;
    }
    return out;
  }
  for (double& sigma : out) {
    sigma = static_cast<float>(sigma);
  }
  return out;
}

}  // namespace

Ladder flow_match_levels(const ScheduleConfig& config, int64_t steps, int64_t tokens) {
  const Levels& levels = config.levels;
  const auto train = static_cast<float>(config.num_train_timesteps);
  Ladder out{.sigmas = unshifted(config, steps)};
  apply_shift(config, tokens, out.sigmas);
  if (levels.spread != Spread::MODEL) {
    check(levels.spread != Spread::AYS,
          "[scheduler] the levels `ays` are of diffusions, not of flows");
    out.sigmas = spread(levels.spread, levels.sigma_max.value_or(out.sigmas.front()),
                        levels.sigma_min.value_or(out.sigmas.back()),
                        static_cast<int64_t>(out.sigmas.size()));
  }
  for (double& sigma : out.sigmas) {
    sigma = levels.inverted ? 1.0F - static_cast<float>(sigma) : static_cast<float>(sigma);
    out.timesteps.push_back(static_cast<float>(sigma) * train);
  }
  if (!levels.timesteps.empty() && !levels.inverted) {
    out.timesteps = levels.timesteps;
  }
  out.sigmas.push_back(levels.inverted ? 1.0 : 0.0);
  return out;
}

/// x' = x + (sigma' - sigma) v; with stochastic sampling x' = (1 - sigma') x_0 + sigma' z
Schedule flow_match_euler(const ScheduleConfig& config, int64_t steps, int64_t tokens) {
  Schedule out = with_levels(config, flow_match_levels(config, steps, tokens));
  out.form.noise = config.solver.stochastic;
  for (size_t i = 0; i < out.timesteps.size(); ++i) {
    const float next = out.sigmas[i + 1];
    StepCoefficients step{.data_v = -out.sigmas[i]};
    if (config.solver.stochastic) {
      step.from_m0 = 1.0F - next;
      step.from_noise = next;
    } else {
      step.from_c = 1;
      step.from_v = next - out.sigmas[i];
    }
    out.steps.push_back(step);
  }
  return out;
}

}  // namespace kinema::schedulers
