#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/io/json.h"

/// Training runs beside each other, from what they wrote.
namespace kinema::reports {

/// What a run came to.
struct RunSummary {
  std::string name;  // of its folder; its path where two have the same
  std::filesystem::path folder;
  int64_t steps = 0;
  // Of the running mean that curves show (metrics::smoothed); NaN where two experts take turns,
  // whose losses are of different timesteps.
  double loss = 0;
  double best_loss = 0;
  int64_t best_step = 0;                  // completed steps then
  std::map<std::string, double> experts;  // the last of each
  // Of evaluations, where there were any.
  std::optional<double> eval_loss;
  std::optional<double> best_eval_loss;
  int64_t best_eval_step = 0;
  double steps_per_second = 0;  // by the median of the steps' seconds
};

/// One figure of all runs, step by step.
struct ComparedCurve {
  struct Of {
    std::vector<double> steps;  // 1 for the first
    std::vector<double> values;
  };
  std::string title;
  std::vector<Of> runs;  // of each, maybe of no points

  /// Lowest and highest finite value of all; nothing without one.
  std::optional<std::pair<double, double>> range() const;
};

struct Comparison {
  /// A line of a table: a word, and a cell for each run.
  struct Row {
    std::string name;
    std::vector<std::string> cells;
  };
  std::vector<RunSummary> runs;
  std::vector<ComparedCurve> curves;
  std::vector<Row> differences;  // of the configuration: a key and its values

  /// The summaries as lines of a table.
  std::vector<Row> table() const;
  /// Curves have 500 points at most.
  io::Json json() const;
  /// The curves as a picture, each run in a colour of its own.
  std::string svg() const;
};

/// Reads the metrics and configurations of runs. Throws an Error for a folder that is no run, or
/// one that has made no step yet.
Comparison compare(std::span<const std::filesystem::path> folders);

}  // namespace kinema::reports
