#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinema/agents/actor.h"
#include "kinema/environments/group.h"
#include "kinema/io/json.h"
#include "kinema/replay/replay.h"

namespace kinema::agents {

/// An episode that ended.
struct Episode {
  double score = 0.0;  // the sum of rewards
  int64_t length = 0;  // observations
  /// The original's statistics of the episode: `reward_rate`, and of each `log/KEY` of the
  /// environment `log/KEY/avg`, `/max` and `/sum`.
  std::map<std::string, double> statistics;
};

/// A transition of all environments of a group, rows [n, ...], as the agent sees it.
struct Transition {
  environments::Arrays observations;
  environments::Arrays actions;  // taken in this state; zeros where the episode ends
  std::vector<float> reward;
  std::vector<uint8_t> is_first;
  std::vector<uint8_t> is_last;
  std::vector<uint8_t> is_terminal;
};

/// Steps a group of environments with an agent's actions, and keeps what happens in replay. The
/// environments work on their next step while this returns.
class Driver {
 public:
  /// `actor` null: actions are uniform. `first`: the index of the group's first environment, which
  /// is its worker in replay. `replay` may be null.
  Driver(std::unique_ptr<environments::Group> group, std::unique_ptr<Actor> actor,
         std::shared_ptr<replay::Replay> replay, int64_t first, uint64_t seed);

  int64_t size() const { return group_->size(); }
  int64_t repeat() const { return group_->repeat(); }
  Actor* actor() { return actor_.get(); }

  using OnStep = std::function<void(const Transition&)>;
  /// One step of every environment. `call` is its number among all of the run. Returns the episodes
  /// that ended with it.
  std::vector<Episode> step(int64_t call, const OnStep& on_step = {});

  /// The state between two steps, by name; waits for the environments. Without the environments'
  /// own where they cannot save it: then `restore` begins new episodes and returns false.
  environments::Arrays state();
  bool restore(const environments::Arrays& state);

 private:
  /// Sums over the episode that an environment is in.
  struct Running {
    double score = 0.0;
    int64_t length = 0;
    int64_t rewarded = 0;
    struct Log {
      double sum = 0.0;
      double max = 0.0;
    };
    std::map<std::string, Log> logs;
  };

  environments::GroupSteps next_steps();
  Actor::Acted random_actions(int64_t call) const;
  void keep(const Transition& now, const environments::Arrays& latents);
  std::vector<Episode> count(const environments::GroupSteps& steps);
  void begin(const Transition& now);

  std::unique_ptr<environments::Group> group_;
  std::unique_ptr<Actor> actor_;
  std::shared_ptr<replay::Replay> replay_;
  int64_t first_;
  uint64_t seed_;
  bool begun_ = false;
  std::optional<environments::GroupSteps> ready_;  // what `state` waited for
  std::vector<Running> running_;
};

}  // namespace kinema::agents
