#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "kinema/cli/log_pace.h"
#include "kinema/cli/progress.h"
#include "kinema/cli/run_videos.h"
#include "kinema/cli/training.h"
#include "kinema/config/config.h"
#include "kinema/training/metrics.h"
#include "kinema/training/metrics_chunks.h"
#include "kinema/training/tensorboard.h"

namespace kinema::cli {

/// What a training run says of itself while it goes on: console, metrics.jsonl and event files.
class RunRecords {
 public:
  /// `quiet`: nothing goes to the console; `first_words` stand behind the first step's line;
  /// `on_log` is called when a log_period is written.
  RunRecords(const Training& training, const config::Config& config, bool quiet,
             std::string first_words, std::function<void()> on_log);

  void step(const training::StepRecord& record);
  void evaluation(int64_t step, const training::Evaluation& evaluation, double seconds);
  /// Of videos that were made after step `step`; -1: before the first.
  void videos(int64_t step, const RunVideos::Made& made);
  void likeness(int64_t step, const BeforeTraining::Likeness& likeness);
  void line(const std::string& text);
  /// Closes the files and draws the curve of losses.
  void finish();

 private:
  std::filesystem::path run_, metrics_path_;
  double fps_;
  int64_t log_period_, first_step_;
  bool quiet_;
  std::string first_words_;
  std::optional<training::MetricsFile> metrics_;
  std::optional<training::MetricsChunks> chunks_;
  std::optional<training::EventFile> events_;
  std::function<void()> on_log_;
  LogPace pace_;
  Stopwatch since_start_;
  std::optional<Progress> progress_;  // until finish()
};

}  // namespace kinema::cli
