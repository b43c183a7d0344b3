#include "kinema/environments/cart_pole.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace kinema::environments {

CartPoleState cart_pole_step(const CartPoleState& state, double force) {
  constexpr double kGravity = 9.8;
  constexpr double kPoleMass = 0.1;
  constexpr double kMass = 1.0 + kPoleMass;  // of cart and pole
  constexpr double kLength = 0.5;            // half of the pole's
  constexpr double kSeconds = 0.02;
  const auto [x, velocity, angle, turn] = state;
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  const double push = (force + kPoleMass * kLength * turn * turn * sine) / kMass;
  const double turn_rate = (kGravity * sine - cosine * push) /
                           (kLength * (4.0 / 3.0 - kPoleMass * cosine * cosine / kMass));
  const double rate = push - kPoleMass * kLength * turn_rate * cosine / kMass;
  return {x + kSeconds * velocity, velocity + kSeconds * rate, angle + kSeconds * turn,
          turn + kSeconds * turn_rate};
}

CartPole::CartPole(Settings& settings, const Seed& seed) : Episodic(settings.task(), seed) {
  observations_["vector"] = {DType::F32, {4}};
  actions_["action"] = {DType::S32, {}, 0, 2};
}

void CartPole::start(RandomStream& random) {
  for (double& value : state_) {
    value = 0.1 * static_cast<double>(random.uniform()) - 0.05;
  }
}

Outcome CartPole::act(const Arrays& action) {
  constexpr double kForce = 10.0;
  constexpr double kTrack = 2.4;
  constexpr double kAngle = 12.0 * std::numbers::pi / 180.0;
  state_ = cart_pole_step(state_, discrete_action(action) == 1 ? kForce : -kForce);
  return {.reward = 1.0F,
          .is_terminal = std::abs(state_[0]) > kTrack || std::abs(state_[2]) > kAngle};
}

Arrays CartPole::observe() const {
  const std::vector<float> values(state_.begin(), state_.end());
  return {{"vector", HostArray::f32({4}, values)}};
}

}  // namespace kinema::environments
