#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/metrics/metrics_reader.h"

/// A summary of a training run from its folder, also while it is running.
namespace kinema::reports {

/// The paths of a run's files, from the current contents of its folder.
struct RunFiles {
  std::filesystem::path run;
  std::filesystem::path metrics;
  std::filesystem::path checkpoints;
  int64_t max_steps = 0;  // 0: unknown

  /// Throws an Error if `run` is not a folder, or its config.yml is not a configuration; if it is a
  /// folder of several runs, the Error names them.
  explicit RunFiles(std::filesystem::path run);
};

/// The current state of a run.
struct RunOverview {
  enum class State : uint8_t { RUNNING, STOPPED, DONE };
  static constexpr size_t kRecent = 100;  // steps in a mean

  RunFiles files;
  std::vector<metrics::MetricsRow> rows;  // at least one
  bool is_running = true;                 // false if no process holds its lock

  State state() const;
  int64_t steps() const { return rows.back().step + 1; }
  /// One metric of all steps.
  std::vector<double> column(double metrics::MetricsRow::*which) const;
  /// Means of the last steps; NaN if none of them is finite.
  double recent_loss() const { return recent_mean(&metrics::MetricsRow::loss); }
  double recent_seconds() const { return recent_mean(&metrics::MetricsRow::seconds); }
  /// For several processes; else empty.
  std::string slowest_process() const;
  io::Json json() const;

 private:
  double recent_mean(double metrics::MetricsRow::*which) const;
};

/// The finite values.
std::vector<double> finite(std::vector<double> values);

}  // namespace kinema::reports
