#pragma once

#include <span>
#include <string>
#include <vector>

#include "kinema/core/stopwatch.h"
#include "kinema/world/pulse.h"

/// What each of several processes takes for a step: all steps end together, so that a slow process
/// is not seen in how long they take, only in who waits for whom.
namespace kinema::reports {

/// Of this process: what it takes for itself, beside its waiting for the others as far as that is
/// known (on GPUs and TPUs it is not: there what differs is the data).
class OwnTime {
 public:
  void begin();
  world::StepTime of_step(int64_t step) const;

 private:
  Stopwatch watch_;
  double waited_ = 0;
};

/// Of each process what it last told, seconds by rank; empty of one process (null), and until all
/// have told.
std::vector<double> process_seconds(const world::Pulse* pulse);

/// `process 3 slowest with 0.310 s of its own, the others on average 0.220 s`: of such seconds of
/// some steps; empty of one process.
std::string slowest_process(std::span<const std::vector<double>> steps);

}  // namespace kinema::reports
