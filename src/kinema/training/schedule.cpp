#include "kinema/training/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kinema::training {

namespace {

/// g(u).
double left_of(const Schedule& schedule, double u) {
  switch (schedule.decay_shape) {
    case Schedule::DecayShape::LINE:
      return 1.0 - u;
    case Schedule::DecayShape::COSINE:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * u));
    case Schedule::DecayShape::POLYNOMIAL:
      return std::pow(1.0 - u, schedule.power);
    case Schedule::DecayShape::REX:
      return (1.0 - u) / (1.0 - 0.5 * u);
  }
  return 1.0;
}

/// The decay in words: ` by half a cosine`; empty for a line.
std::string shape_of(const Schedule& schedule) {
  switch (schedule.decay_shape) {
    case Schedule::DecayShape::LINE:
      return "";
    case Schedule::DecayShape::COSINE:
      return schedule.cycles > 1 ? fmt::format(" by {} half cosines", schedule.cycles)
                                 : " by half a cosine";
    case Schedule::DecayShape::POLYNOMIAL:
      return fmt::format(" by a polynomial of power {:g}", schedule.power);
    case Schedule::DecayShape::REX:
      return " by REX";
  }
  return "";
}

}  // namespace

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
  double done = std::clamp(static_cast<double>(step - (steps - decay)) / static_cast<double>(decay),
                           0.0, 1.0);
  if (done < 1.0) {
    done = std::fmod(done * static_cast<double>(cycles), 1.0);
  }
  const double left = left_of(*this, done);
  return learning_rate * (left + (1.0 - left) * final_fraction);
}

std::string describe(const Schedule& schedule) {
  std::string out = fmt::format("learning rate {:g}", schedule.learning_rate);
  if (schedule.warmup_steps() > 0) {
    out += fmt::format(" after {} steps", schedule.warmup_steps());
  }
  if (schedule.decay_steps() > 0) {
    out += fmt::format(", decays{} from step {} to {:g} at step {}", shape_of(schedule),
                       schedule.steps - schedule.decay_steps(),
                       schedule.learning_rate * schedule.final_fraction, schedule.steps);
  }
  return out;
}

}  // namespace kinema::training
