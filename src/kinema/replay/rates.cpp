#include "kinema/replay/rates.h"

#include <cmath>

#include "kinema/core/error.h"

namespace kinema::replay {

int64_t StepRatio::operator()(int64_t step) {
  if (ratio_ <= 0.0) {
    return ratio_ < 0.0 ? 1 : 0;
  }
  if (is_first_) {
    is_first_ = false;
    done_to_ = static_cast<double>(step);
    return 1;
  }
  const double times = std::floor((static_cast<double>(step) - done_to_) * ratio_);
  done_to_ += times / ratio_;
  return static_cast<int64_t>(times);
}

SampleLimiter::SampleLimiter(double samples_per_insert, double tolerance, int64_t least)
    : samples_per_insert_(samples_per_insert),
      tolerance_(tolerance),
      least_(least),
      available_(-static_cast<double>(least)) {
  check(samples_per_insert > 0.0 && tolerance >= 0.0 && least > 0,
        "[replay] {} samples per insert, tolerance {}, {} steps at least: the first and last must "
        "be positive",
        samples_per_insert, tolerance, least);
}

bool SampleLimiter::may_insert() const {
  return inserted_ < least_ || available_ < tolerance_ * samples_per_insert_;
}

bool SampleLimiter::may_sample() const { return inserted_ >= least_ && available_ > -tolerance_; }

void SampleLimiter::inserted() {
  if (++inserted_ >= least_) {
    available_ += samples_per_insert_;
  }
}

}  // namespace kinema::replay
