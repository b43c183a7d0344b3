#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kinema/cli/log_pace.h"
#include "kinema/cli/progress.h"
#include "kinema/core/stopwatch.h"
#include "kinema/jobs/train.h"

namespace kinema::cli {

/// What people see of a training run: what it is at its start, lines of steps at a pace that can be
/// read, and a bar.
class TrainConsole {
 public:
  /// `quiet`: nothing goes to stdout.
  explicit TrainConsole(bool quiet) : quiet_(quiet) {}
  TrainConsole(const TrainConsole&) = delete;
  TrainConsole& operator=(const TrainConsole&) = delete;

  /// Refers to this object.
  jobs::TrainObserver observer();
  /// Takes the bar away.
  void finish() { progress_.reset(); }

 private:
  void start(const jobs::TrainStart& start);
  void step(const jobs::StepRecord& record);
  void line(const std::string& text) const;

  bool quiet_;
  int64_t first_step_ = 0;
  std::string allowed_flags_;  // stand behind the first step's line
  Stopwatch since_start_;
  std::optional<LogPace> pace_;
  std::optional<Progress> progress_;
};

}  // namespace kinema::cli
