#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kinema/agents/driver.h"
#include "kinema/metrics/tensorboard.h"

namespace kinema::agents {

/// Means of values by name. NaN values are skipped.
class Means {
 public:
  void add(const std::string& name, double value);
  bool empty() const { return sums_.empty(); }
  /// The means with `prefix` before their names; begins anew.
  std::vector<metrics::Scalar> take(const std::string& prefix);
  /// The mean of one name; NaN where nothing was added.
  double mean(const std::string& name) const;

 private:
  struct Sum {
    double sum = 0.0;
    int64_t count = 0;
  };
  std::map<std::string, Sum> sums_;
};

/// A file of JSON objects, one a line, each with `step`. Opened for a run that goes on from
/// `first_step`, it loses the lines of later steps.
class JsonLines {
 public:
  JsonLines(const std::filesystem::path& path, int64_t first_step);
  void write(int64_t step, const std::vector<metrics::Scalar>& scalars);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

/// What a run writes down, under the original's names: metrics.jsonl, scores.jsonl with the score
/// of each episode, and TensorBoard's events. Steps are frames of the environment.
class RunLogs {
 public:
  RunLogs(const std::filesystem::path& folder, int64_t first_step, bool with_metrics,
          bool with_tensorboard);

  void episode(int64_t step, const Episode& episode);
  void write(int64_t step, const std::vector<metrics::Scalar>& scalars);

 private:
  JsonLines scores_;
  std::unique_ptr<JsonLines> metrics_;
  std::unique_ptr<metrics::EventFile> events_;
};

}  // namespace kinema::agents
