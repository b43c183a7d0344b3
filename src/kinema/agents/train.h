#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kinema/agents/settings.h"
#include "kinema/io/json.h"
#include "kinema/job/job.h"

namespace kinema::agents {

/// What is known when a run begins.
struct TrainStart {
  std::string run_folder;
  std::string task;
  int64_t environments = 0;
  std::vector<std::string> spaces;  // a line each: `image u8[10,10,1]`
  int64_t parameters = 0;           // 0: nothing is trained
  int64_t first_step = 0;           // of the environments
  int64_t steps = 0;                // at the end
  std::string replay;               // what it takes, as a line
  double compile_seconds = 0;
  int64_t temporary_bytes = 0;  // of the training program
  bool new_episodes = false;    // the run goes on, but its environments begin anew
};

/// The progress of a run. Numbers that are not known yet are NaN.
struct TrainProgress {
  int64_t step = 0;     // of the environments
  int64_t updates = 0;  // steps of training
  int64_t episodes = 0;
  double score = 0;  // mean of the episodes of the last 1,000 steps: at least 5, at most 100
  double length = 0;
  double steps_per_second = 0;
  double train_ratio = 0;  // replayed steps per step of the environments
  std::vector<std::pair<std::string, double>> losses;  // means since the last line: `dyn`, `rew`
  bool is_logged = false;  // these numbers were also written to metrics.jsonl
};

struct TrainObserver : Observer {
  std::function<void(const TrainStart&)> on_start;
  /// A few times a second.
  std::function<void(const TrainProgress&)> on_progress;
};

struct TrainResult {
  std::string run_folder;
  bool stopped = false;
  int64_t step = 0;
  int64_t updates = 0;
  int64_t episodes = 0;
  double score = 0;  // as in TrainProgress
  double seconds = 0;
  double train_seconds = 0;  // of these in training steps

  io::Json json() const;
};

/// Trains an agent in the environments of a task, or goes on where the run's folder has a
/// checkpoint. Acting and training overlap: while a step of training runs, the agent acts with the
/// parameters before it, so that a run is the same whatever each takes. A stop is graceful: with a
/// checkpoint before the next step of training.
TrainResult train(const Settings& settings, const TrainObserver& observer,
                  const JobOptions& options = {});

}  // namespace kinema::agents
