#pragma once

#include <csignal>

namespace kinema::cli {

/// Turns the first SIGTERM, SIGINT or SIGHUP into a request that the loop sees. A SIGTERM or SIGINT
/// half a second after it, or later, is a wish to end now; earlier ones are the same wish once
/// more: GNU timeout sends its signal to the process and to its group. A second SIGINT counts from
/// 50 ms on: it may have been typed. One after that ends the process as it would without us. A
/// SIGHUP after the first signal does nothing: a terminal that goes sends several. One that is
/// ignored (nohup) stays so. Earlier handlers come back when the object goes.
class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();

  /// True once a signal came.
  static bool requested();
  /// The signal that wishes for an end now; 0: none yet.
  static int insisted();

 private:
  struct sigaction old_term_ = {};
  struct sigaction old_int_ = {};
  struct sigaction old_hup_ = {};
};

}  // namespace kinema::cli
