#pragma once

#include <csignal>

namespace kinema::train {

/// Turns the first SIGTERM or SIGINT into a request that the loop sees; the second one ends the
/// process at once, as it would without us. Earlier handlers come back when the object goes.
class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();

  /// True once a signal came.
  static bool requested();

 private:
  struct sigaction old_term_ = {};
  struct sigaction old_int_ = {};
};

}  // namespace kinema::train
