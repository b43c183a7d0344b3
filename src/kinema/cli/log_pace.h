#pragma once

#include <cstdint>

namespace kinema::cli {

/// Which steps of a run have a line of their own on the console: the first, the last, and every
/// so-and-so-many.
class LogPace {
 public:
  /// `every` steps; 0: at most a hundred lines by number (1, 2 or 5 times a power of ten), and one
  /// where half a minute went by without.
  LogPace(int64_t every, int64_t first_step, int64_t max_steps);

  /// Whether step `step`, 0 for the run's first, that ends `seconds` after the start has one.
  bool is_due(int64_t step, double seconds);

 private:
  int64_t every_, first_step_, max_steps_;
  bool by_time_;
  double last_ = 0;
};

}  // namespace kinema::cli
