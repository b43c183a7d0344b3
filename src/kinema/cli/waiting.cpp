#include "kinema/cli/waiting.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "kinema/cli/commands.h"
#include "kinema/cli/console.h"
#include "kinema/core/parallel.h"
#include "kinema/core/quantities.h"
#include "kinema/core/stopwatch.h"

namespace kinema::cli {
namespace {

constexpr auto kShort = std::chrono::milliseconds(300);  // shorter waits print nothing
constexpr auto kTick = std::chrono::seconds(1);
constexpr double kLong = 10;  // seconds; longer waits print a line without a terminal

std::atomic<int> compilations = 0;

/// The program's name for console lines.
std::string named(std::string program) {
  if (program == "train_step") {
    return "the step";
  }
  std::ranges::replace(program, '_', ' ');
  return program;
}

struct Compiling {
  explicit Compiling(const std::string& program) : line("compiling " + named(program)) {
    ++compilations;
  }
  ~Compiling() { --compilations; }
  Compiling(const Compiling&) = delete;
  Compiling& operator=(const Compiling&) = delete;

  Waiting line;
};

}  // namespace

struct Waiting::State {
  explicit State(std::string text)
      : what(std::move(text)), ticker(start_optional_thread([this] { tick(); })) {}

  void tick() {
    std::unique_lock lock(mutex);
    auto pause = std::chrono::steady_clock::duration(kShort);
    while (!over.wait_for(lock, pause, [this] { return ended; })) {
      pause = kTick;
      const double seconds = watch.seconds();
      if (has_terminal()) {
        line.show(seconds < 60 ? fmt::format("{} ... {:.0f} s", what, seconds)
                               : fmt::format("{} ... {}", what, clock_text(seconds)));
      } else if (seconds >= kLong && !said) {
        said = true;
        warn(what + " ...");
      }
    }
  }

  std::string what;
  Stopwatch watch;
  LiveLine line;
  std::mutex mutex;
  std::condition_variable over;
  bool ended = false;
  bool said = false;
  std::jthread ticker;  // last: its thread uses the other members
};

Waiting::Waiting(std::string what) : state_(std::make_unique<State>(std::move(what))) {}

Waiting::~Waiting() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->ended = true;
  }
  state_->over.notify_all();
  if (state_->ticker.joinable()) {
    state_->ticker.join();
  }
  if (state_->said) {
    warn(fmt::format("{} took {:.1f} s", state_->what, state_->watch.seconds()));
  }
}

std::shared_ptr<void> compiling(const std::string& program) {
  return std::make_shared<Compiling>(program);
}

bool is_compiling() { return compilations > 0; }

}  // namespace kinema::cli
