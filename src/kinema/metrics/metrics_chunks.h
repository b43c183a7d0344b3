#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kinema::metrics {

/// The rows of metrics.jsonl once more, in files of `period` steps each:
/// `metrics_step_000000_to_step_000099.txt`. Where the folder is written to a store, where nothing
/// can be appended to, no row is sent twice.
class MetricsChunks {
 public:
  /// Throws an Error when the folder cannot be made.
  MetricsChunks(std::filesystem::path folder, int64_t period);

  /// Takes the line of a step.
  void add(int64_t step, const std::string& line);
  /// Writes what is left.
  void finish();

 private:
  std::filesystem::path folder_;
  int64_t period_;
  int64_t first_ = 0;  // step of the first line that is held
  int64_t last_ = 0;
  int64_t lines_ = 0;
  std::string held_;
};

}  // namespace kinema::metrics
