#pragma once

#include <array>

#include "kinema/environments/episodic.h"
#include "kinema/environments/settings.h"

namespace kinema::environments {

/// Position, velocity, angle and angular velocity of the cart-pole of Barto, Sutton and Anderson
/// (1983), in meters, radians and seconds.
using CartPoleState = std::array<double, 4>;

/// The state 0.02 s later, with a force in newton on the cart: one Euler step, with the constants
/// of gymnasium's CartPole-v1.
CartPoleState cart_pole_step(const CartPoleState& state, double force);

/// Gymnasium's CartPole-v1. Observation `vector` F32 [4]; actions push left (0) or right (1).
/// Reward 1 for each step until the cart leaves the track or the pole falls.
class CartPole : public Episodic {
 public:
  CartPole(Settings& settings, const Seed& seed);

 private:
  void start(RandomStream& random) override;
  Outcome act(const Arrays& action) override;
  Arrays observe() const override;

  CartPoleState state_{};
};

}  // namespace kinema::environments
