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

/// The videos of a run's prompts while it is trained, where they are wanted: at evaluations, and
/// before and after the training for the comparison. Of several processes all call each function
/// at the same point; process 0 alone keeps, compares and tells.
class WatchedVideos {
 public:
  /// Who is told of them.
  struct Listeners {
    const TrainObserver& observer;
    const Job& job;
    RunRecords& records;
  };

  /// `flags`: the compiler's that were given. Throws an Error where the videos could not be made.
  WatchedVideos(const resolve::Settings& loaded, const Training& training,
                const pjrt::Client& client, io::Json flags, const Listeners& listeners);

  /// For the comparison; again only where a resumed run has none.
  void before_training();
  void after_evaluation(int64_t step);
  void after_training(int64_t steps);

 private:
  /// Of what is made.
  std::string_view noun() const { return training_.step.network.sizes().noun(); }
  std::optional<RunVideos::Made> make(int64_t steps);
  void compare(int64_t steps);

  const Training& training_;
  Listeners listeners_;
  bool at_evaluations_ = false;
  std::optional<RunVideos> videos_;
  bool compares_ = false;
  bool knows_before_ = false;             // a video from before the training
  std::optional<BeforeTraining> before_;  // of process 0
  std::optional<BeforeTraining::Likeness> likeness_;
  int64_t compared_ = -1;  // steps of the newest comparison
};

}  // namespace kinema::jobs
