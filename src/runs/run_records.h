#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "config/config.h"
#include "runs/run_videos.h"
#include "runs/training.h"
#include "train/metrics.h"
#include "train/metrics_chunks.h"
#include "train/tensorboard.h"

namespace kinema::runs {

/// What a training run writes of itself while it goes on: metrics.jsonl, event files and, at its
/// end, the curve of losses.
class RunRecords {
 public:
  /// `on_log` is called when a log_period is written.
  RunRecords(const Training& training, const config::Config& config, std::function<void()> on_log);

  void step(const train::StepRecord& record);
  void evaluation(int64_t step, const train::Evaluation& evaluation);
  /// Of videos that were made after step `step`; -1: before the first.
  void videos(int64_t step, const RunVideos::Made& made);
  void likeness(int64_t step, const BeforeTraining::Likeness& likeness);
  /// Closes the files and draws the curve of losses.
  void finish();

 private:
  std::filesystem::path run_, metrics_path_;
  double fps_;
  int64_t log_period_;
  std::optional<train::MetricsFile> metrics_;
  std::optional<train::MetricsChunks> chunks_;
  std::optional<train::EventFile> events_;
  std::function<void()> on_log_;
};

}  // namespace kinema::runs
