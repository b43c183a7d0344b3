#include "kinema/environments/pendulum.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace kinema::environments {
namespace {

constexpr double kMostTurn = 8.0;
constexpr double kMostTorque = 2.0;

/// In [-pi, pi).
double wrapped_angle(double angle) {
  constexpr double kTwoPi = 2.0 * std::numbers::pi;
  const double rest = std::fmod(angle + std::numbers::pi, kTwoPi);
  return (rest < 0.0 ? rest + kTwoPi : rest) - std::numbers::pi;
}

}  // namespace

PendulumState pendulum_step(const PendulumState& state, double torque) {
  constexpr double kGravity = 10.0;
  constexpr double kSeconds = 0.05;
  const double limited = std::clamp(torque, -kMostTorque, kMostTorque);
  // A rod of mass 1 kg and length 1 m.
  const double rate = 1.5 * kGravity * std::sin(state.angle) + 3.0 * limited;
  const double turn = std::clamp(state.turn + kSeconds * rate, -kMostTurn, kMostTurn);
  return {state.angle + kSeconds * turn, turn};
}

double pendulum_reward(const PendulumState& before, double torque) {
  const double limited = std::clamp(torque, -kMostTorque, kMostTorque);
  const double angle = wrapped_angle(before.angle);
  return -(angle * angle + 0.1 * before.turn * before.turn + 0.001 * limited * limited);
}

Pendulum::Pendulum(Settings& settings, const Seed& seed) : Episodic(settings.task(), seed) {
  observations_["vector"] = {DType::F32, {3}, -kMostTurn, kMostTurn};
  actions_["action"] = {DType::F32, {1}, -kMostTorque, kMostTorque};
}

void Pendulum::start(RandomStream& random) {
  const auto symmetric = [&] { return 2.0 * static_cast<double>(random.uniform()) - 1.0; };
  state_.angle = std::numbers::pi * symmetric();
  state_.turn = symmetric();
}

Outcome Pendulum::act(const Arrays& action) {
  const double torque = action.at("action").as<float>()[0];
  const double reward = pendulum_reward(state_, torque);
  state_ = pendulum_step(state_, torque);
  return {.reward = static_cast<float>(reward)};
}

Arrays Pendulum::observe() const {
  const std::vector<float> values{static_cast<float>(std::cos(state_.angle)),
                                  static_cast<float>(std::sin(state_.angle)),
                                  static_cast<float>(state_.turn)};
  return {{"vector", HostArray::f32({3}, values)}};
}

}  // namespace kinema::environments
