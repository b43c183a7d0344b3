#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kinema::metrics {

/// A line of `metrics.jsonl`; missing numbers are NaN.
struct MetricsRow {
  int64_t step = 0;
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  double seconds = 0;
  double expected_seconds = 0;  // as `plan` computes them
  double bytes = 0;             // in use on the first device, else of the process
  double tflops_per_second = 0;
  double epoch = 0;
  std::string time = {};                     // UTC
  std::string nonfinite;                     // where, if the step was not finite
  std::string expert = {};                   // the expert of the step, in a run of both
  std::vector<double> process_seconds = {};  // of several processes, by rank
};

/// A line of an evaluation.
struct EvaluationRow {
  int64_t step = 0;
  double loss = 0;
};

/// Follows a `metrics.jsonl` that a run may be writing.
class MetricsReader {
 public:
  explicit MetricsReader(std::filesystem::path path) : path_(std::move(path)) {}

  /// Reads the new lines, or all of them if the file was replaced (by a resumed run). Returns true
  /// if there were new lines. Incomplete lines are read later; unknown lines are skipped. A missing
  /// file has no lines.
  bool poll();
  const std::vector<MetricsRow>& rows() const { return rows_; }
  const std::vector<EvaluationRow>& evaluations() const { return evaluations_; }

 private:
  std::filesystem::path path_;
  ino_t file_ = 0;
  int64_t read_ = 0;  // bytes
  std::vector<MetricsRow> rows_;
  std::vector<EvaluationRow> evaluations_;
};

}  // namespace kinema::metrics
