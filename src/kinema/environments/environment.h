#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/environments/space.h"

namespace kinema::environments {

/// Arrays by name.
using Arrays = std::map<std::string, HostArray>;

/// What an environment returns for an action.
struct Step {
  Arrays observation;
  float reward = 0.0F;       // of the action that led to this observation
  bool is_first = false;     // the first observation of an episode
  bool is_last = false;      // the episode ends here: in a terminal state, or at a time limit
  bool is_terminal = false;  // the episode ends in a terminal state
  std::map<std::string, double> log;  // statistics, which the agent does not see
};

/// One environment. Its episodes follow each other: after the last step of an episode, the next
/// call starts a new one.
class Environment {
 public:
  virtual ~Environment() = default;
  virtual const Spaces& observations() const = 0;
  virtual const Spaces& actions() const = 0;
  /// With `reset`, or after the last step of an episode, the action is ignored, and the step is the
  /// first of a new episode.
  virtual Step step(const Arrays& action, bool reset) = 0;
  /// The number of the episode that the next reset starts, 0 at first. All randomness of an
  /// episode depends on it, so an episode can be played again.
  virtual void set_next_episode(int64_t episode) = 0;
};

}  // namespace kinema::environments
