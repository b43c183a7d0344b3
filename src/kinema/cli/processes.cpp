#include "kinema/cli/processes.h"

#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "kinema/cli/commands.h"
#include "kinema/cli/console.h"
#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/core/printable.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/json.h"
#include "kinema/resolve/place.h"
#include "kinema/world/agreement.h"

namespace kinema::cli {
namespace {

std::shared_ptr<world::World>& joined() {
  static std::shared_ptr<world::World> world;
  return world;
}

/// Process 0 prints the errors that reached it. The others print only if process 0 does not answer,
/// or if they have their own console.
void print_of_several(world::World& world, const std::string& error) {
  static std::atomic_flag prints;
  if (prints.test_and_set()) {  // another thread prints, and ends this process
    std::this_thread::sleep_for(std::chrono::minutes(1));
  }
  constexpr double kAnswer = 15;  // seconds: process 0 may be compiling
  constexpr double kGather = 1.5;
  const bool known = world.pulse()->fail(error, kAnswer);
  if (world.is_first()) {
    for (const std::string& line : world.pulse()->errors(kGather)) {
      std::fprintf(stderr, "kinema: %s\n", printable_message(line).c_str());
    }
    std::fflush(stderr);
    world.pulse()->said();
  } else if (!known) {
    std::fprintf(stderr, "kinema: [%s] %s\n", world.name_of(world.rank()).c_str(),
                 printable_message(error).c_str());
  } else if (world.place().has_own_console) {
    std::fprintf(stderr, "kinema: %s\n", printable_message(error).c_str());
  }
  std::fflush(nullptr);
  // Finalizing MPI would wait for the lost processes; the launcher ends this one.
  std::_Exit(1);
}

/// The command of this process.
std::string& command() {
  static std::string name;
  return name;
}

/// Prints a log line after some seconds of waiting for other processes: the launcher's library
/// waits silently.
class JoinWatch {
 public:
  explicit JoinWatch(const world::Place& place) {
    if (place.launcher == world::Launcher::PMIX) {
      thread_ = start_optional_thread([how = place.how](const std::stop_token& end) {
        constexpr auto kPause = std::chrono::milliseconds(50);
        constexpr double kLong = 5;
        for (const Stopwatch watch; !end.stop_requested();) {
          std::this_thread::sleep_for(kPause);
          if (watch.seconds() > kLong) {
            warn("waiting for the other processes of " + how + ": does each run kinema " +
                 command() + "?");
            return;
          }
        }
      });
    }
  }

 private:
  std::jthread thread_;
};

void join(const world::Place& place) {
  {
    const JoinWatch watch(place);
    joined() = world::World::join(place, warn);
    if (!joined()->is_alone()) {
      world::check_alike(*joined(), {{"the command", command()}}, "the start");
    }
  }
  if (world::Pulse* pulse = joined()->pulse()) {
    pulse->set_overdue([] { print_of_several(*joined(), joined()->failure()); });
  }
  if (world::Pulse* pulse = joined()->pulse()) {
    pulse->set_show(warn);
  }
  if (!joined()->is_first()) {
    mute();
    if (std::freopen("/dev/null", "w", stdout) == nullptr) {
      std::fclose(stdout);
    }
  }
}

/// The last value of a key in the arguments; empty without one.
std::string value_in(std::span<const std::string> words, const std::string& key) {
  std::string value;
  for (const std::string& word : words) {
    if (word.starts_with(key + "=")) {
      value = word.substr(key.size() + 1);
    }
  }
  return value;
}

/// An integer key in the arguments. An invalid number is reported later, when all arguments are
/// parsed.
int64_t number_in(std::span<const std::string> words, const std::string& key, int64_t otherwise) {
  const std::string text = value_in(words, key);
  int64_t out = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

/// The launcher's processes and the coordinator's address. Throws an Error if the arguments
/// contradict the launcher, before any process waits for the others.
world::Place launched_place(std::span<const std::string> words) {
  const std::string coordinator = value_in(words, "coordinator_address");
  const world::Place found = world::find_place(world::own_environment());
  return found.size > 1 ? world::told_place(found, number_in(words, "process_id", found.rank),
                                            number_in(words, "num_processes", 1), coordinator)
                        : world::meeting_at(found, coordinator);
}

}  // namespace

std::shared_ptr<world::World> joined_world(const std::string& name,
                                           std::span<const std::string> words) {
  command() = name;
  if (!joined()) {
    join(launched_place(words));
  }
  return joined();
}

std::shared_ptr<world::World> joined_world(const config::Config& config) {
  check(joined() != nullptr, "[world] the words come before the configuration");
  const world::Place& met = joined()->place();
  if (joined()->is_alone()) {
    const world::Place place = resolve::place_of(config, met);
    if (place.size > 1) {
      join(place);
    }
    return joined();
  }
  const config::RuntimeConfig& keys = config.runtime;
  const world::Place told =
      world::told_place(met, keys.process_id, keys.num_processes, keys.coordinator_address);
  check(told.coordinator == met.coordinator,
        "[coordinator_address] {}: the processes that {} started have connected at {} before any "
        "file was read\n"
        "  give it on the command line: coordinator_address={}",
        told.coordinator, met.how, met.coordinator, told.coordinator);
  return joined();
}

void warn_of_all(const std::string& text) {
  warn(text);
  if (world::Pulse* pulse = joined() ? joined()->pulse() : nullptr) {
    pulse->notice(text);
  }
}

void show_last_notices() {
  if (world::Pulse* pulse = joined() ? joined()->pulse() : nullptr) {
    pulse->show_last();
  }
}

void end_all_by(int signal) {
  if (world::Pulse* pulse = joined() ? joined()->pulse() : nullptr) {
    constexpr double kTold = 2;  // seconds
    pulse->fail("ended immediately after a second request", kTold);
    if (joined()->is_first()) {
      pulse->said();
    }
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::_Exit(1);
}

int fail_with(const std::string& error, bool json) {
  if (json) {
    io::Json report = io::Json::object();
    report.set("error", printable_message(error));
    std::fprintf(stdout, "%s\n", report.dump().c_str());
    std::fflush(stdout);
  }
  if (joined() && !joined()->is_alone()) {
    // If the error only quotes another process's error, print only that one.
    const world::Pulse* const pulse = joined()->pulse();
    const std::string why = pulse == nullptr ? "" : pulse->failure();
    print_of_several(*joined(), why.empty() || error.find(why) == std::string::npos ? error : why);
  }
  std::fprintf(stderr, "kinema: %s\n", printable_message(error).c_str());
  return 1;
}

}  // namespace kinema::cli
