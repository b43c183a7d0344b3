#include "kinema/cli/stopping.h"

#include <chrono>
#include <utility>

#include "kinema/cli/processes.h"
#include "kinema/cli/waiting.h"
#include "kinema/core/parallel.h"

namespace kinema::cli {

namespace {

// A handler may neither print nor ask a stop_source, and the thread that works may be within a call
// that takes minutes: a thread looks.
void answer(const std::string& when, std::stop_source& stop, const std::stop_token& end) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  while (!end.stop_requested() && !StopSignal::requested()) {
    std::this_thread::sleep_for(kPause);
  }
  if (!StopSignal::requested()) {
    return;
  }
  // What begins because of the stop is not what is waited for.
  const std::string after = is_compiling() ? "the compile" : when;
  stop.request_stop();
  warn_of_all(when.empty() ? "stopping" : "stopping after " + after + "; again to end now");
  while (!end.stop_requested() && StopSignal::insisted() == 0) {
    std::this_thread::sleep_for(kPause);
  }
  if (const int signal = StopSignal::insisted(); signal != 0) {
    end_all_by(signal);
  }
}

}  // namespace

Stopping::Stopping(std::string when, std::stop_source stop)
    // What cannot be printed is lost, and the request to stop is made before.
    : answer_(start_thread([when = std::move(when), stop = std::move(stop)](
                               const std::stop_token& end) mutable { answer(when, stop, end); },
                           [](const std::exception_ptr&) {})) {}

}  // namespace kinema::cli
