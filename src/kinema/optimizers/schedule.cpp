#include "kinema/optimizers/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kinema::optimizers {

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

/// A place in the decay, by cycles.
struct Place {
  double earlier;  // cycles
  double u;        // of this cycle, in [0, 1]
};

Place place_of(const Schedule& schedule, double done) {
  const auto n = static_cast<double>(schedule.cycles);
  if (done >= 1.0) {
    return {n - 1.0, 1.0};
  }
  const double m = schedule.cycle_growth;
  if (m == 1.0) {
    return {std::floor(done * n), std::fmod(done * n, 1.0)};
  }
  // In lengths of the first cycle: k cycles take (m^k - 1) / (m - 1).
  const double x = done * (std::pow(m, n) - 1.0) / (m - 1.0);
  const double k =
      std::clamp(std::floor(std::log(x * (m - 1.0) + 1.0) / std::log(m)), 0.0, n - 1.0);
  const double begin = (std::pow(m, k) - 1.0) / (m - 1.0);
  return {k, std::clamp((x - begin) / std::pow(m, k), 0.0, 1.0)};
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
  if (relative_step != RelativeStep::NONE) {
    const auto t = static_cast<double>(step + 1);
    return std::min(relative_step == RelativeStep::WARMUP ? 1e-6 * t : 1e-2, 1.0 / std::sqrt(t));
  }
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
  const Place place = place_of(*this, done);
  const double left = left_of(*this, place.u) * std::pow(cycle_peak, place.earlier);
  return learning_rate * (left + (1.0 - left) * final_fraction);
}

std::string describe(const Schedule& schedule) {
  if (schedule.relative_step != Schedule::RelativeStep::NONE) {
    return fmt::format(
        "learning rate of Adafactor: min({}, 1 / sqrt(t)) in step t",
        schedule.relative_step == Schedule::RelativeStep::WARMUP ? "1e-6 t" : "0.01");
  }
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

}  // namespace kinema::optimizers
