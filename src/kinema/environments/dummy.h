#pragma once

#include "kinema/environments/episodic.h"
#include "kinema/environments/settings.h"

namespace kinema::environments {

/// Every kind of space, for tests and measurements: observations `image` U8 [64, 64, 3], `vector`
/// F32 [7], `token` S32, `count` F32 (steps of the episode), `float2d` F32 [4, 5] and `int2d` S32
/// [2, 3]. Reward 1 for each of the `length` (100) steps of an episode, the last of which is
/// terminal. The action is one of five, or F32 [6] without limits.
class Dummy : public Episodic {
 public:
  enum class Actions : bool { DISCRETE, CONTINUOUS };
  Dummy(Settings& settings, const Seed& seed, Actions kind);

 private:
  void start(RandomStream& random) override;
  Outcome act(const Arrays& action) override;
  Arrays observe() const override;

  int64_t length_ = 0;
  int64_t count_ = 0;
};

}  // namespace kinema::environments
