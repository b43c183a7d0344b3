#include "kinema/training/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kinema::training {

int64_t Schedule::warmup_steps() const {
  return static_cast<int64_t>(static_cast<double>(steps) * warmup_fraction);
}

int64_t Schedule::decay_steps() const {
  return decay_fraction < 0 ? steps - warmup_steps()
                            : static_cast<int64_t>(static_cast<double>(steps) * decay_fraction);
}

double Schedule::operator()(int64_t step) const {
  const int64_t warmup = warmup_steps();
  if (step < warmup) {
    return learning_rate * static_cast<double>(step) / static_cast<double>(warmup);
  }
  const int64_t decay = decay_steps();
  if (decay <= 0) {
    return learning_rate;
  }
  const double done = std::clamp(
      static_cast<double>(step - (steps - decay)) / static_cast<double>(decay), 0.0, 1.0);
  const double left =
      fall == Fall::LINE ? 1.0 - done : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return learning_rate * (left + (1.0 - left) * final_fraction);
}

std::string describe(const Schedule& schedule) {
  std::string out = fmt::format("learning rate {:g}", schedule.learning_rate);
  if (schedule.warmup_steps() > 0) {
    out += fmt::format(" after {} steps", schedule.warmup_steps());
  }
  if (schedule.decay_steps() > 0) {
    out += fmt::format(", decays{} from step {} to {:g} at step {}",
                       schedule.fall == Schedule::Fall::COSINE ? " by half a cosine" : "",
                       schedule.steps - schedule.decay_steps(),
                       schedule.learning_rate * schedule.final_fraction, schedule.steps);
  }
  return out;
}

}  // namespace kinema::training
