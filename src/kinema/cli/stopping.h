#pragma once

#include <stop_token>
#include <string>
#include <thread>

#include "kinema/cli/stop_signal.h"

namespace kinema::cli {

/// Lets a command end in good order: the first SIGINT, SIGTERM or SIGHUP requests a stop and prints
/// at once what will be finished first; a second one ends the process, or all processes of the run.
class Stopping {
 public:
  /// `when`: what is finished before stopping, `this step, with a checkpoint`; empty: nothing. The
  /// request goes to `stop`.
  Stopping(std::string when, std::stop_source stop);

 private:
  StopSignal signal_;
  std::jthread answer_;
};

}  // namespace kinema::cli
