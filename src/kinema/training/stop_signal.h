#pragma once

#include <csignal>

namespace kinema::training {

/// Turns the first SIGTERM, SIGINT or SIGHUP into a request that the loop sees; a SIGTERM or SIGINT
/// after it ends the process at once, as it would without us. A SIGHUP after it does nothing: a
/// terminal that goes sends several. One that is ignored (nohup) stays so. Earlier handlers come
/// back when the object goes.
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
  struct sigaction old_hup_ = {};
};

}  // namespace kinema::training
