#include "kinema/environments/episodic.h"

namespace kinema::environments {

Step Episodic::step(const Arrays& action, bool reset) {
  Step out;
  if (reset || is_over_) {
    const auto key = random_key(seed_.seed, task_, static_cast<uint64_t>(seed_.index));
    const auto episode = static_cast<uint64_t>(next_episode_++);
    RandomStream random(
        threefry2x32(key, {static_cast<uint32_t>(episode), static_cast<uint32_t>(episode >> 32)}));
    start(random);
    out.is_first = true;
  } else {
    const Outcome outcome = act(action);
    out.reward = outcome.reward;
    out.is_terminal = out.is_last = outcome.is_terminal;
  }
  is_over_ = out.is_last;
  out.observation = observe();
  return out;
}

int64_t discrete_action(const Arrays& action) { return action.at("action").as<int32_t>()[0]; }

}  // namespace kinema::environments
