#include "kinema/cli/stopping.h"

#include <chrono>
#include <utility>

#include "kinema/cli/commands.h"
#include "kinema/cli/waiting.h"

namespace kinema::cli {

// A handler may not print, and the thread that works may be within a call that takes minutes: a
// thread looks.
Stopping::Stopping(std::string when)
    : answer_([when = std::move(when)](const std::stop_token& end) {
        constexpr auto kPause = std::chrono::milliseconds(50);
        while (!end.stop_requested() && !requested()) {
          std::this_thread::sleep_for(kPause);
        }
        if (requested()) {
          warn("stopping after " + (is_compiling() ? "the compile" : when) + "; again to end now");
        }
      }) {}

}  // namespace kinema::cli
