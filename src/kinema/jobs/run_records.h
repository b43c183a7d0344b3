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

/// Writes the metrics of a training run: metrics.jsonl, event files and, at the end, the plot of
/// the losses.
class RunRecords {
 public:
  /// `on_log` is called after each log_period. `writes`: true in one process of a run.
  RunRecords(const Training& training, resolve::RecordSettings settings, bool writes,
             std::function<void()> on_log);

  void step(const training::StepRecord& record);
  void evaluation(int64_t step, const training::Evaluation& evaluation);
  /// Adds the videos made after step `step`; -1: before the first one.
  void videos(int64_t step, const RunVideos::Made& made);
  void similarity(int64_t step, const BeforeTraining::Similarity& similarity);
  /// Closes the files.
  void finish();
  /// Draws the losses to `loss.svg`.
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
