#pragma once

#include <stop_token>
#include <string>
#include <thread>

#include "kinema/cli/stop_signal.h"

namespace kinema::cli {

/// Lets a command end in good order: the first SIGINT, SIGTERM or SIGHUP becomes a request to stop,
/// which is answered at once with a line that says when it is met; the second one ends the process,
/// of several all of them.
class Stopping {
 public:
  /// `when`: what is finished first, `this step, with a checkpoint`; empty: nothing. `stop` is
  /// asked to.
  Stopping(std::string when, std::stop_source stop);

 private:
  StopSignal signal_;
  std::jthread answer_;
};

}  // namespace kinema::cli
