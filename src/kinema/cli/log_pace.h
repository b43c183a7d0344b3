#pragma once

#include <cstdint>

namespace kinema::cli {

/// Which steps of a run get a line on the console: the first, the last, and every n-th.
class LogPace {
 public:
  /// `every`: steps per line; 0: at most a hundred lines at round numbers (1, 2 or 5 times a power
  /// of ten), and a line after half a minute without one.
  LogPace(int64_t every, int64_t first_step, int64_t max_steps);

  /// True if step `step` (0: the run's first), completed `seconds` after the start, gets a line.
  bool is_due(int64_t step, double seconds);

 private:
  int64_t every_, first_step_, max_steps_;
  bool by_time_;
  double last_ = 0;
};

}  // namespace kinema::cli
