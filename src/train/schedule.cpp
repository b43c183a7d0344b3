#include "train/schedule.h"

#include <algorithm>

namespace kinema::train {

int64_t Schedule::warmup_steps() const {
  return static_cast<int64_t>(static_cast<double>(steps) * warmup_fraction);
}

double Schedule::operator()(int64_t step) const {
  const int64_t warmup = warmup_steps();
  if (step < warmup) {
    return learning_rate * static_cast<double>(step) / static_cast<double>(warmup);
  }
  const auto decay = static_cast<int64_t>(static_cast<double>(steps) * decay_fraction);
  if (decay <= 0) {
    return learning_rate;
  }
  const double done = std::clamp(
      static_cast<double>(step - (steps - decay)) / static_cast<double>(decay), 0.0, 1.0);
  return learning_rate * ((1.0 - done) + done * final_fraction);
}

}  // namespace kinema::train
