#include "kinema/cli/stopping.h"

#include <chrono>
#include <utility>

#include "kinema/cli/processes.h"
#include "kinema/cli/waiting.h"
#include "kinema/core/parallel.h"

namespace kinema::cli {

namespace {

// A signal handler can neither print nor use a stop_source, and the working thread may be in a call
// of minutes, so a separate thread polls.
void answer(const std::string& when, std::stop_source& stop, const std::stop_token& end) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  while (!end.stop_requested() && !StopSignal::requested()) {
    std::this_thread::sleep_for(kPause);
  }
  if (!StopSignal::requested()) {
    return;
  }
  // During a compile the stop waits for the compile, not for `when`.
  const std::string after = is_compiling() ? "the compile" : when;
  stop.request_stop();
  warn_with_ranks(when.empty() ? "stopping" : "stopping after " + after + "; again to end now");
  while (!end.stop_requested() && StopSignal::second_signal() == 0) {
    std::this_thread::sleep_for(kPause);
  }
  if (const int signal = StopSignal::second_signal(); signal != 0) {
    end_all_by(signal);
  }
}

}  // namespace

Stopping::Stopping(std::string when, std::stop_source stop)
    // If the thread cannot print, the line is lost; the stop request comes first.
    : answer_(start_thread([when = std::move(when), stop = std::move(stop)](
                               const std::stop_token& end) mutable { answer(when, stop, end); },
                           [](const std::exception_ptr&) {})) {}

}  // namespace kinema::cli
