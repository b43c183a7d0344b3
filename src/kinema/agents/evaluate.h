#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/job/job.h"

namespace kinema::agents {

struct EvaluateOptions {
  int64_t episodes = 200;
  /// Environments that are stepped together.
  int64_t environments = 8;
  /// Of environments and actions; not the run's, so that the episodes are new.
  uint64_t seed = 1'000'003;
  /// Files of the first episode's pictures; empty: none. They need an observation that is an image.
  std::filesystem::path video = {};  // .mp4
  /// .png: all of them in a row, and below what the world model predicts: the first half of the
  /// episode is observed, the other half imagined with the actions that were taken. A random
  /// agent's are alone.
  std::filesystem::path sheet = {};
  /// .mp4 of the same: truth, prediction and their difference below each other; empty: none.
  std::filesystem::path open_loop = {};
  double fps = 10;
};

struct EvaluateResult {
  std::vector<double> scores;  // of the episodes
  std::vector<double> lengths;
  double mean = 0;
  double deviation = 0;  // of the scores
  int64_t step = 0;      // of the environments, at the checkpoint
  double seconds = 0;

  io::Json json() const;
};

struct EvaluateObserver : Observer {
  /// After each step of the first environment's first episode: its reward, and the action as text.
  std::function<void(int64_t step, const std::string& action, double reward)> on_step;
};

/// Episodes of a run's agent, with its newest checkpoint; actions are sampled, as in training. Of
/// each environment as many episodes count, so that short ones are not more frequent.
EvaluateResult evaluate(const std::filesystem::path& run, const EvaluateOptions& options,
                        const EvaluateObserver& observer, const JobOptions& job = {});

}  // namespace kinema::agents
