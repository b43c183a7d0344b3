#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/json.h"

/// Compares training runs by their files.
namespace kinema::reports {

/// The result of a run.
struct RunSummary {
  std::string name;  // of its folder; its path if two are the same
  std::filesystem::path folder;
  int64_t steps = 0;
  // Of the running mean in curves (metrics::smoothed); NaN with two experts, whose losses are at
  // different timesteps.
  double loss = 0;
  double best_loss = 0;
  int64_t best_step = 0;                  // completed steps at that loss
  std::map<std::string, double> experts;  // the last loss of each expert
  // Of evaluations, if there were any.
  std::optional<double> eval_loss;
  std::optional<double> best_eval_loss;
  int64_t best_eval_step = 0;
  double steps_per_second = 0;  // from the median of the steps' seconds
  int64_t common_steps = 0;     // steps that the first run has made too
  int64_t equal_steps = 0;      // of these, those from the first on with exactly its losses
};

/// One metric of all runs, by step.
struct ComparedCurve {
  struct Of {
    std::vector<double> steps;  // starting at 1
    std::vector<double> values;
  };
  std::string title;
  std::vector<Of> runs;  // one per run, with or without points

  /// The lowest and highest finite value; nothing if there is none.
  std::optional<std::pair<double, double>> range() const;
};

/// How a file of Comparison::svg() begins, so that it may be replaced by another one.
inline constexpr std::string_view kSvgMark = "<!-- kinema compare -->\n";

struct Comparison {
  /// A line of a table: a label, and a cell for each run.
  struct Row {
    std::string name;
    std::vector<std::string> cells;
  };
  std::vector<RunSummary> runs;
  std::vector<ComparedCurve> curves;
  std::vector<Row> differences;  // of the configuration: a key and its values

  /// The summaries as lines of a table.
  std::vector<Row> table() const;
  /// Curves have at most 500 points.
  io::Json json() const;
  /// The curves as a plot, with one color per run.
  std::string svg() const;
};

/// Reads the metrics and configurations of runs. Throws an Error for a folder that is not a run, or
/// a run without a completed step.
Comparison compare(std::span<const std::filesystem::path> folders);

}  // namespace kinema::reports
