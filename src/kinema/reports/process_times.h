#pragma once

#include <span>
#include <string>
#include <vector>

#include "kinema/core/stopwatch.h"
#include "kinema/world/heartbeat.h"

/// The time of a step in each of several processes. All processes complete a step together, so its
/// duration does not show which process is slow; the time without waiting does.
namespace kinema::reports {

/// The time of this process without waiting for others. On GPUs and TPUs the waiting inside a step
/// is unknown, so that processes differ only in the time for data.
class StepTimer {
 public:
  void begin();
  world::StepTime of_step(int64_t step) const;

 private:
  Stopwatch watch_;
  double waited_ = 0;
};

/// The last reported seconds of each process, by rank; empty with one process (null), and until all
/// have reported.
std::vector<double> process_seconds(const world::Heartbeat* heartbeat);

/// `process 3 slowest with 0.310 s of its own, the others on average 0.220 s`, for the seconds of
/// some steps; empty with one process.
std::string slowest_process(std::span<const std::vector<double>> steps);

}  // namespace kinema::reports
