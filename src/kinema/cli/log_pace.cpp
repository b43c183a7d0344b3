#include "kinema/cli/log_pace.h"

#include <initializer_list>

namespace kinema::cli {
namespace {

/// The smallest of 1, 2, 5, 10, 20, ... that gives at most a hundred lines for `steps` steps.
int64_t steps_a_line(int64_t steps) {
  constexpr int64_t kLines = 100;
  const int64_t least = steps / kLines + (steps % kLines > 0 ? 1 : 0);
  int64_t power = 1;
  while (power * 10 < least) {
    power *= 10;
  }
  for (const int64_t factor : {1, 2, 5}) {
    if (factor * power >= least) {
      return factor * power;
    }
  }
  return 10 * power;
}

}  // namespace

LogPace::LogPace(int64_t every, int64_t first_step, int64_t max_steps)
    : every_(every > 0 ? every : steps_a_line(max_steps)),
      first_step_(first_step),
      max_steps_(max_steps),
      by_time_(every == 0) {}

bool LogPace::is_due(int64_t step, double seconds) {
  constexpr double kLongest = 30;
  const bool due = step == first_step_ || step + 1 == max_steps_ || (step + 1) % every_ == 0 ||
                   (by_time_ && seconds - last_ >= kLongest);
  last_ = due ? seconds : last_;
  return due;
}

}  // namespace kinema::cli
