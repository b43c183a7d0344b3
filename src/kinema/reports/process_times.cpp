#include "kinema/reports/process_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "kinema/cluster/cpu_cluster.h"

namespace kinema::reports {

void StepTimer::begin() {
  watch_.restart();
  waited_ = cluster::seconds_waited();
}

world::StepTime StepTimer::of_step(int64_t step) const {
  return {.step = step, .seconds = watch_.seconds(), .waited = cluster::seconds_waited() - waited_};
}

std::vector<double> process_seconds(const world::Heartbeat* heartbeat) {
  if (heartbeat == nullptr) {
    return {};
  }
  std::vector<double> out;
  for (const world::Progress& each : heartbeat->progress()) {
    if (each.last.step == 0) {
      return {};
    }
    out.push_back(std::max(0.0, each.last.seconds - each.last.waited));
  }
  return out;
}

std::string slowest_process(std::span<const std::vector<double>> steps) {
  std::vector<double> sums;
  int64_t count = 0;
  for (const std::vector<double>& each : steps) {
    if (each.size() < 2) {
      continue;
    }
    if (each.size() != sums.size()) {  // from another start with another number of processes
      sums.assign(each.size(), 0);
      count = 0;
    }
    std::ranges::transform(sums, each, sums.begin(), std::plus());
    ++count;
  }
  if (sums.empty()) {
    return "";
  }
  const auto slowest = std::ranges::max_element(sums);
  const double others = std::accumulate(sums.begin(), sums.end(), 0.0) - *slowest;
  const auto steps_made = static_cast<double>(count);
  return fmt::format("process {} slowest with {:.3f} s of its own, {} {:.3f} s",
                     slowest - sums.begin(), *slowest / steps_made,
                     sums.size() == 2 ? "the other" : "the others on average",
                     others / steps_made / static_cast<double>(std::ssize(sums) - 1));
}

}  // namespace kinema::reports
