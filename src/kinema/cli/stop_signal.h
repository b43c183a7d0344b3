#pragma once

#include <csignal>

namespace kinema::cli {

/// Turns the first SIGTERM, SIGINT, SIGHUP or SIGUSR1 (sbatch --signal=USR1, before a time limit)
/// into a stop request, which the loop polls. A SIGTERM
/// or SIGINT at least half a second later requests an immediate end; an earlier one only repeats
/// the first request, because GNU timeout signals both the process and its group. A second SIGINT
/// counts after 50 ms: it may have been typed. The next signal has its default action and ends the
/// process. A SIGHUP or SIGUSR1 after the first signal does nothing: a closing terminal sends
/// several. An ignored SIGHUP (nohup) or SIGUSR1 stays ignored. The destructor restores the earlier
/// handlers.
class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();

  /// True after the first signal.
  static bool requested();
  /// The signal that requested an immediate end; 0: none yet.
  static int second_signal();

 private:
  struct sigaction old_term_ = {};
  struct sigaction old_int_ = {};
  struct sigaction old_hup_ = {};
  struct sigaction old_usr1_ = {};
};

}  // namespace kinema::cli
