#pragma once

#include <string>
#include <thread>

#include "kinema/training/stop_signal.h"

namespace kinema::cli {

/// Lets a command end in good order: the first SIGINT, SIGTERM or SIGHUP becomes a request, which
/// is answered at once with a line that says when it is met; the second one ends the process.
class Stopping {
 public:
  /// `when`: what is finished first, `this step, with a checkpoint`.
  explicit Stopping(std::string when);

  static bool requested() { return training::StopSignal::requested(); }

 private:
  training::StopSignal signal_;
  std::jthread answer_;
};

}  // namespace kinema::cli
