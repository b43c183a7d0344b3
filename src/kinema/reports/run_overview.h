#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/metrics/metrics_reader.h"

/// A training run as its folder tells of it, whether it goes on or not.
namespace kinema::reports {

/// Where a run's files are, from what its folder holds now.
struct RunFiles {
  std::filesystem::path run;
  std::filesystem::path metrics;
  std::filesystem::path checkpoints;
  int64_t max_steps = 0;  // 0: not known

  /// Throws an Error where `run` is no folder, or its config.yml no configuration; where it is no
  /// run but the folder of several, one that names them.
  explicit RunFiles(std::filesystem::path run);
};

/// A run as it is now.
struct RunOverview {
  enum class State : uint8_t { RUNNING, STOPPED, DONE };
  static constexpr size_t kRecent = 100;  // steps that a mean is taken of

  RunFiles files;
  std::vector<metrics::MetricsRow> rows;  // at least one
  bool is_running = true;                 // a process works at it, as far as is known

  State state() const;
  int64_t steps() const { return rows.back().step + 1; }
  /// One figure of all steps.
  std::vector<double> column(double metrics::MetricsRow::*which) const;
  /// Means of the last steps; NaN where none of them is finite.
  double recent_loss() const { return recent_mean(&metrics::MetricsRow::loss); }
  double recent_seconds() const { return recent_mean(&metrics::MetricsRow::seconds); }
  /// Of several processes; else empty.
  std::string slowest_process() const;
  io::Json json() const;

 private:
  double recent_mean(double metrics::MetricsRow::*which) const;
};

/// The values that are finite.
std::vector<double> finite(std::vector<double> values);

}  // namespace kinema::reports
