#include "kinema/training/profile_window.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/trace.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/io/gzip.h"
#include "kinema/records/xspace.h"

namespace kinema::training {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return "localhost";
  }
  std::string out(name.data());
  std::ranges::replace(out, '/', '_');
  return out;
}

}  // namespace

ProfileWindow::ProfileWindow(ProfileOptions options, const pjrt::Plugin& plugin,
                             std::filesystem::path folder, int64_t first_step, int64_t max_steps)
    : plugin_(plugin),
      folder_(std::move(folder)),
      first_(first_step + options.skip_first),
      last_(std::min(first_ + options.steps, max_steps) - 1) {
  check(first_ < max_steps,
        "[profile] the first recorded step would be {}, but the run ends after {} steps\n"
        "  set skip_first_n_steps_for_profiler below {}, or increase max_train_steps",
        first_ + 1, max_steps, std::max<int64_t>(max_steps - first_step, 1));
}

ProfileWindow::~ProfileWindow() {
  if (is_running_) {
    trace::stop();
  }
}

std::string ProfileWindow::before_step(int64_t step) {
  std::string line;
  if (is_running_ && step > last_) {
    line = write();
  }
  reached_ = step;
  if (step == first_) {
    trace::start();  // first: times are relative to its start
    is_running_ = true;
    std::string without;
    if (!pjrt::Profiler::is_available(plugin_)) {
      without = "the plugin has no profiler";
    } else {
      try {
        devices_ = std::make_unique<pjrt::Profiler>(plugin_);
      } catch (const Error& error) {  // an error of the profiler must not end the run
        without = error.what();
      }
    }
    if (!without.empty()) {
      line = without +
             ": the trace has this program's threads and kernels, and each step's time on the "
             "device; with jit=false that of each block of the model";
    }
  }
  return line;
}

std::string ProfileWindow::finish() { return is_running_ ? write() : ""; }

std::string ProfileWindow::write() {
  is_running_ = false;
  const trace::Recording host = trace::stop();
  std::string recorded;
  std::string without;
  if (devices_) {
    try {
      recorded = devices_->stop();
    } catch (const Error& error) {
      without = fmt::format(", without the devices: {}", error.what());
    }
    devices_.reset();
  }
  const std::string name = host_name();
  const std::string space = records::merge_recordings(recorded, host, name);
  const std::time_t now = std::time(nullptr);
  const std::filesystem::path folder =
      folder_ / "plugins" / "profile" / fmt::format("{:%Y_%m_%d_%H_%M_%S}", fmt::localtime(now));
  io::make_folder(folder);
  io::write_file(folder / (name + ".xplane.pb"), space);
  io::write_file(folder / (name + ".trace.json.gz"), io::gzip(records::chrome_trace(space)));
  return fmt::format("profile of steps {} to {}: {}{}", first_ + 1, std::min(last_, reached_) + 1,
                     folder.string(), without);
}

}  // namespace kinema::training
