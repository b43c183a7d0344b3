#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/metrics/tensorboard.h"
#include "kinema/training/evaluation.h"
#include "kinema/training/loop.h"

namespace kinema::metrics {

/// The time as text, in UTC: `2026-11-22T21:40:30.123Z`.
std::string time_now();

/// Throws an Error for a file with lines that do not begin as rows of `what` do: it is somebody
/// else's.
void check_holds_rows(const std::filesystem::path& path, std::string_view begin,
                      std::string_view what);

/// `metrics.jsonl`: one line a step, written when the step is done.
///
/// Keys are MaxDiffusion's (`learning/loss`, `learning/max_grad_norm`, which is the norm of all
/// gradients, ..., and `step`, 0 for the first), and `time` in UTC; a step that was not finite has
/// null for its loss and says `nonfinite`.
class MetricsFile {
 public:
  /// Opens the file for steps from `first_step` on: rows of earlier steps and of other runs stay,
  /// later ones (of a run that went on past its last checkpoint) and a torn last line go. Throws an
  /// Error when the file cannot be written, and when it holds something else.
  MetricsFile(std::filesystem::path path, std::string run_name, int64_t first_step);

  /// Returns the line without its end.
  std::string write(const training::StepRecord& record);
  /// A row of its own with `learning/eval_loss` and `eval/loss_tT` for each timestep T.
  void write(int64_t step, const training::Evaluation& evaluation);
  /// A row of its own with these numbers.
  void write(int64_t step, const std::vector<Scalar>& scalars);

 private:
  std::string write_row(const io::Json& row);

  std::filesystem::path path_;
  std::string run_name_;
  std::ofstream file_;
};

/// Step and loss of every row of a metrics file that has both; of one run, where it is named.
struct LossCurve {
  std::vector<double> steps;
  std::vector<double> losses;
};
LossCurve read_losses(const std::filesystem::path& metrics, const std::string& run_name = {});

/// Means over a window around each value, which grows with their number (a thirtieth of it).
struct Smoothed {
  std::vector<double> values;
  int64_t width = 1;  // of the window
};
Smoothed smoothed(const std::vector<double>& values);

/// Draws a curve with a smoothed line and axes as SVG; nothing when it has fewer than two points.
void write_curve(const std::filesystem::path& path, const LossCurve& curve,
                 const std::string& title);

}  // namespace kinema::metrics
