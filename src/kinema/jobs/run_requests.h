#pragma once

#include <filesystem>

#include "kinema/core/stopwatch.h"
#include "kinema/job/job.h"
#include "kinema/training/loop.h"

namespace kinema::jobs {

/// What others ask of a run while it trains, as empty files in its folder: `RUN/requests/save` for
/// a checkpoint, `RUN/requests/sample` for videos. The run removes a file when it does what it asks
/// for. Runs of several processes, which would have to agree on the step, do not look at them.
class RunRequests {
 public:
  /// Removes requests to an earlier part of the run.
  RunRequests(const std::filesystem::path& run, const Job& job);

  /// Looks at most four times a second: the folder may be on a slow file system.
  training::Asked take();

 private:
  std::filesystem::path folder_;
  bool is_alone_;
  Stopwatch since_;
};

}  // namespace kinema::jobs
