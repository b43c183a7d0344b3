#pragma once

#include <cstdint>
#include <string>

#include "kinema/core/threefry.h"
#include "kinema/environments/environment.h"

namespace kinema::environments {

/// What an action leads to.
struct Outcome {
  float reward = 0.0F;
  bool is_terminal = false;
};

/// The seed of an environment, and its index among those of a run.
struct Seed {
  uint64_t seed = 0;
  int64_t index = 0;
};

/// An environment that is given by its rules: how an episode starts, what an action does, what can
/// be observed. Randomness depends on task, seed, index and episode alone.
class Episodic : public Environment {
 public:
  Episodic(std::string task, const Seed& seed) : task_(std::move(task)), seed_(seed) {}

  const Spaces& observations() const final { return observations_; }
  const Spaces& actions() const final { return actions_; }
  Step step(const Arrays& action, bool reset) final;
  void set_next_episode(int64_t episode) final { next_episode_ = episode; }

 protected:
  virtual void start(RandomStream& random) = 0;
  virtual Outcome act(const Arrays& action) = 0;
  virtual Arrays observe() const = 0;

  Spaces observations_;
  Spaces actions_;

 private:
  std::string task_;
  Seed seed_;
  int64_t next_episode_ = 0;
  bool is_over_ = true;
};

/// The action named `action` of an environment with one discrete action.
int64_t discrete_action(const Arrays& action);

}  // namespace kinema::environments
