#pragma once

#include "kinema/environments/episodic.h"
#include "kinema/environments/settings.h"

namespace kinema::environments {

/// Angle from upright and angular velocity, in radians and seconds.
struct PendulumState {
  double angle = 0.0;
  double turn = 0.0;
};

/// The state 0.05 s later under a torque, which is limited to [-2, 2], with the constants of
/// gymnasium's Pendulum-v1; and the reward of that step, which is never positive.
PendulumState pendulum_step(const PendulumState& state, double torque);
double pendulum_reward(const PendulumState& before, double torque);

/// Gymnasium's Pendulum-v1: swing up and stay upright. Observation `vector` F32 [3]: cosine and
/// sine of the angle, angular velocity. Action F32 [1], a torque in [-2, 2].
class Pendulum : public Episodic {
 public:
  Pendulum(Settings& settings, const Seed& seed);

 private:
  void start(RandomStream& random) override;
  Outcome act(const Arrays& action) override;
  Arrays observe() const override;

  PendulumState state_;
};

}  // namespace kinema::environments
