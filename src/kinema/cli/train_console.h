#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kinema/cli/log_pace.h"
#include "kinema/cli/progress.h"
#include "kinema/core/stopwatch.h"
#include "kinema/jobs/train.h"

namespace kinema::cli {

/// A training run on the console: a summary at its start, lines for some of the steps, and a bar.
class TrainConsole {
 public:
  /// `quiet`: nothing on stdout.
  explicit TrainConsole(bool quiet) : quiet_(quiet) {}
  TrainConsole(const TrainConsole&) = delete;
  TrainConsole& operator=(const TrainConsole&) = delete;

  /// The returned observer refers to this object.
  jobs::TrainObserver observer();
  /// Removes the bar.
  void finish() { progress_.reset(); }

 private:
  void start(const jobs::TrainStart& start);
  void step(const jobs::StepRecord& record);
  void line(const std::string& text) const;

  bool quiet_;
  int64_t first_step_ = 0;
  std::string allowed_flags_;  // appended to the first step's line
  Stopwatch since_start_;
  std::optional<LogPace> pace_;
  std::optional<Progress> progress_;
};

}  // namespace kinema::cli
