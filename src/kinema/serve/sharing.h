#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "kinema/serve/queue.h"
#include "kinema/serve/runs.h"

namespace kinema::serve {

/// Whether requests are made while a run trains.
enum class WhileTraining : uint8_t {
  AUTO,       ///< on a CPU, as long as an eighth of its memory is available
  SHARE,      ///< yes
  EXCLUSIVE,  ///< no: the engine ends, and requests wait
};

/// Decides that, for a queue and the runs beside it. Safe to use from several threads.
class Sharing {
 public:
  explicit Sharing(WhileTraining when) : when_(when) {}

  /// `training NAME` while requests must wait; looks at the runs once a second.
  std::string hold(Runs& runs, const EngineState& engine);
  /// A run was started.
  void begin(const std::string& name);
  /// True if the engine must end before a run starts.
  bool is_exclusive(const EngineState& engine) const;

 private:
  const WhileTraining when_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_look_{};
  std::string held_;
};

}  // namespace kinema::serve
