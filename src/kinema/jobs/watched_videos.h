#pragma once

#include <cstdint>
#include <optional>

#include "kinema/io/json.h"
#include "kinema/jobs/run_records.h"
#include "kinema/jobs/run_videos.h"
#include "kinema/jobs/train.h"
#include "kinema/jobs/training.h"
#include "kinema/pjrt/client.h"
#include "kinema/resolve/settings.h"

namespace kinema::jobs {

/// Makes the videos of a run's prompts during the training if they are enabled: at evaluations, and
/// before and after the training for the comparison. All functions are collective; only process 0
/// saves, compares and reports.
class WatchedVideos {
 public:
  /// Receivers of the videos and comparisons.
  struct Listeners {
    const TrainObserver& observer;
    const Job& job;
    RunRecords& records;
  };

  /// `flags`: the given compiler flags. Throws an Error if the videos cannot be made.
  WatchedVideos(const resolve::Settings& loaded, const Training& training,
                const pjrt::Client& client, io::Json flags, const Listeners& listeners);

  /// Makes the videos for the comparison, also for a resumed run without them.
  void before_training();
  void after_evaluation(int64_t step);
  /// Makes videos after a step, also in a run without any others. What prevents them is logged.
  void on_request(int64_t step);
  void after_training(int64_t steps);

 private:
  /// `video` or `picture`.
  std::string_view noun() const { return training_.step.network.sizes().noun(); }
  std::optional<RunVideos::Made> make(int64_t steps);
  void compare(int64_t steps);

  void open_videos();

  resolve::Settings loaded_;
  const Training& training_;
  const pjrt::Client& client_;
  io::Json flags_;
  Listeners listeners_;
  bool at_evaluations_ = false;
  std::optional<RunVideos> videos_;
  bool compares_ = false;
  bool has_baseline_ = false;             // a video from before the training
  std::optional<BeforeTraining> before_;  // in process 0
  std::optional<BeforeTraining::Similarity> similarity_;
  int64_t compared_ = -1;  // the step of the newest comparison
};

}  // namespace kinema::jobs
