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

/// Throws an Error for a file with lines that do not start with `begin`: it is not ours.
void check_holds_rows(const std::filesystem::path& path, std::string_view begin,
                      std::string_view what);

/// `metrics.jsonl`: one line per step, written after the step.
///
/// Keys are MaxDiffusion's (`learning/loss`, `learning/max_grad_norm`, which is the global gradient
/// norm, ..., and `step`, 0 for the first), and `time` in UTC; a step that was not finite has a
/// null loss and the key `nonfinite`.
class MetricsFile {
 public:
  /// Opens the file for steps from `first_step`: lines of earlier steps and of other runs stay;
  /// later ones (of a run that continued after its last checkpoint) and an incomplete last line are
  /// removed. Throws an Error if the file cannot be written, or if it is not a metrics file.
  MetricsFile(std::filesystem::path path, std::string run_name, int64_t first_step);

  /// Returns the line without the line break.
  std::string write(const training::StepRecord& record);
  /// Writes a separate line with `learning/eval_loss` and `eval/loss_tT` for each timestep T.
  void write(int64_t step, const training::Evaluation& evaluation);
  /// Writes a separate line with these numbers.
  void write(int64_t step, const std::vector<Scalar>& scalars);

 private:
  std::string write_row(const io::Json& row);

  std::filesystem::path path_;
  std::string run_name_;
  std::ofstream file_;
};

/// Step and loss of every line of a metrics file that has both, optionally of one run only.
struct LossCurve {
  std::vector<double> steps;
  std::vector<double> losses;
};
LossCurve read_losses(const std::filesystem::path& metrics, const std::string& run_name = {});

/// Running means; the window grows with the number of values (a thirtieth of it).
struct Smoothed {
  std::vector<double> values;
  int64_t width = 1;  // of the window
};
Smoothed smoothed(const std::vector<double>& values);

/// Draws a curve with its running mean and axes as SVG; nothing if it has fewer than two points.
void write_curve(const std::filesystem::path& path, const LossCurve& curve,
                 const std::string& title);

}  // namespace kinema::metrics
