#pragma once

#include <stop_token>
#include <string>
#include <thread>

#include "kinema/cli/stop_signal.h"

namespace kinema::cli {

/// Ends a command cleanly on signals: the first SIGINT, SIGTERM, SIGHUP or SIGUSR1 requests a stop
/// and immediately prints what will be finished first; a second one ends the process, or all
/// processes of the run.
class Stopping {
 public:
  /// `when`: what is finished before stopping, such as `this step, with a checkpoint`; empty:
  /// nothing. `stop` receives the request.
  Stopping(std::string when, std::stop_source stop);

 private:
  StopSignal signal_;
  std::jthread answer_;
};

}  // namespace kinema::cli
