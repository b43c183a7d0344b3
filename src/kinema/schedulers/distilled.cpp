#include "kinema/schedulers/distilled.h"

#include "kinema/core/error.h"
#include "kinema/schedulers/levels.h"

namespace kinema::schedulers {

std::vector<int64_t> distilled_timesteps(const ScheduleConfig& config, int64_t steps) {
  if (config.levels.is_given() || config.levels.spread != Spread::MODEL) {
    return whole_timesteps(config, steps);
  }
  const int64_t original = config.solver.original_inference_steps;
  check(original >= 1 && original <= config.num_train_timesteps,
        "[scheduler] original_inference_steps is {}, expected 1 to {}", original,
        config.num_train_timesteps);
  check(steps <= original,
        "[scheduler] num_inference_steps is {}, but the model was distilled from {} steps "
        "(original_inference_steps)\n  take at most {}",
        steps, original, original);
  const int64_t apart = config.num_train_timesteps / original;
  std::vector<int64_t> out;
  for (int64_t i = config.first_step; i < steps; ++i) {
    out.push_back((original - i * original / steps) * apart - 1);
  }
  return out;
}

}  // namespace kinema::schedulers
