#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kinema/agents/driver.h"

namespace kinema::agents {

/// Plays episodes in environments of its own, without keeping their steps.
class EpisodePlayer {
 public:
  explicit EpisodePlayer(std::unique_ptr<Driver> driver);

  void set(const ActingParameters& parameters);

  /// So many episodes; of each environment as many count, so that short ones are not more frequent.
  /// Those that an earlier call left unfinished do not count. `stops` is asked before each step:
  /// true ends it with the episodes so far.
  std::vector<Episode> play(int64_t episodes, const std::function<bool()>& stops,
                            const std::function<void(const Transition&, int64_t done)>& on_step);

 private:
  std::unique_ptr<Driver> driver_;
  int64_t calls_ = 0;
};

}  // namespace kinema::agents
