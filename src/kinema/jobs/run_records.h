#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "kinema/jobs/run_videos.h"
#include "kinema/jobs/training.h"
#include "kinema/metrics/metrics.h"
#include "kinema/metrics/metrics_chunks.h"
#include "kinema/metrics/tensorboard.h"
#include "kinema/resolve/training_settings.h"

namespace kinema::jobs {

/// What a training run writes of itself while it goes on: metrics.jsonl, event files and, at its
/// end, the curve of losses.
class RunRecords {
 public:
  /// `on_log` is called when a log_period is written. `writes`: false in all processes of a run but
  /// one, where nothing is.
  RunRecords(const Training& training, resolve::RecordSettings settings, bool writes,
             std::function<void()> on_log);

  void step(const training::StepRecord& record);
  void evaluation(int64_t step, const training::Evaluation& evaluation);
  /// Of videos that were made after step `step`; -1: before the first.
  void videos(int64_t step, const RunVideos::Made& made);
  void likeness(int64_t step, const BeforeTraining::Likeness& likeness);
  /// Closes the files.
  void finish();
  /// Draws the curve of losses, `loss.svg`.
  void draw() const;

 private:
  std::filesystem::path run_;
  resolve::RecordSettings settings_;
  bool writes_;
  std::optional<metrics::MetricsFile> metrics_;
  std::optional<metrics::MetricsChunks> chunks_;
  std::optional<metrics::EventFile> events_;
  std::function<void()> on_log_;
};

}  // namespace kinema::jobs
