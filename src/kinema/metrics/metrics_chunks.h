#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kinema::metrics {

/// A copy of metrics.jsonl in files of `period` steps each:
/// `metrics_step_000000_to_step_000099.txt`. Stores cannot append to a file; with these no line is
/// uploaded twice.
class MetricsChunks {
 public:
  /// Throws an Error if the folder cannot be created.
  MetricsChunks(std::filesystem::path folder, int64_t period);

  /// Adds the line of a step.
  void add(int64_t step, const std::string& line);
  /// Writes the remaining lines.
  void finish();

 private:
  std::filesystem::path folder_;
  int64_t period_;
  int64_t first_ = 0;  // step of the first line in memory
  int64_t last_ = 0;
  int64_t lines_ = 0;
  std::string held_;
};

}  // namespace kinema::metrics
