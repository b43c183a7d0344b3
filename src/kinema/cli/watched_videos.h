#pragma once

#include <cstdint>
#include <optional>

#include "kinema/cli/run_records.h"
#include "kinema/cli/run_videos.h"
#include "kinema/cli/training.h"
#include "kinema/config/config.h"
#include "kinema/io/json.h"
#include "kinema/pjrt/client.h"

namespace kinema::cli {

/// The videos of a run's prompts while it is trained, where they are wanted: at evaluations, and
/// before and after the training for the comparison.
class WatchedVideos {
 public:
  /// `flags`: the compiler's that were given. Throws an Error where the videos could not be made.
  WatchedVideos(const config::Loaded& loaded, const Training& training, const pjrt::Client& client,
                io::Json flags, RunRecords& records);

  /// For the comparison; again only where a resumed run has none.
  void before_training();
  void after_evaluation(int64_t step);
  void after_training(int64_t steps);

 private:
  std::optional<RunVideos::Made> make(int64_t steps);
  void compare(int64_t steps);

  const Training& training_;
  RunRecords& records_;
  bool at_evaluations_ = false;
  std::optional<RunVideos> videos_;
  std::optional<BeforeTraining> before_;
  std::optional<BeforeTraining::Likeness> likeness_;
  int64_t compared_ = -1;  // steps of the newest comparison
};

}  // namespace kinema::cli
