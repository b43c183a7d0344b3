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
#include "kinema/resolve/process_launch.h"
#include "kinema/world/consistency.h"

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
  const bool known = world.heartbeat()->fail(error, kAnswer);
  if (world.is_first()) {
    for (const std::string& line : world.heartbeat()->errors(kGather)) {
      std::fprintf(stderr, "kinema: %s\n", printable_message(line).c_str());
    }
    std::fflush(stderr);
    world.heartbeat()->set_printed();
  } else if (!known) {
    std::fprintf(stderr, "kinema: [%s] %s\n", world.name_of(world.rank()).c_str(),
                 printable_message(error).c_str());
  } else if (world.launch().has_own_console) {
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
  explicit JoinWatch(const world::Launch& launch) {
    if (launch.launcher == world::Launcher::PMIX) {
      thread_ = start_optional_thread([how = launch.how](const std::stop_token& end) {
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

void join(const world::Launch& launch) {
  {
    const JoinWatch watch(launch);
    joined() = world::World::join(launch, warn);
    if (!joined()->is_alone()) {
      world::check_consistent(*joined(), {{"the command", command()}}, "the start");
    }
  }
  if (world::Heartbeat* heartbeat = joined()->heartbeat()) {
    heartbeat->set_overdue([] { print_of_several(*joined(), joined()->failure()); });
  }
  if (world::Heartbeat* heartbeat = joined()->heartbeat()) {
    heartbeat->set_show(warn);
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
world::Launch detected_launch(std::span<const std::string> words) {
  const std::string coordinator = value_in(words, "coordinator_address");
  const world::Launch found = world::detect_launch(world::own_environment());
  return found.size > 1
             ? world::configured_launch(found, number_in(words, "process_id", found.rank),
                                        number_in(words, "num_processes", 1), coordinator)
             : world::with_coordinator(found, coordinator);
}

}  // namespace

std::shared_ptr<world::World> joined_world(const std::string& name,
                                           std::span<const std::string> words) {
  command() = name;
  if (!joined()) {
    join(detected_launch(words));
  }
  return joined();
}

std::shared_ptr<world::World> joined_world(const config::Config& config) {
  check(joined() != nullptr, "[world] a configuration was read before the processes were joined");
  const world::Launch& joined_launch = joined()->launch();
  if (joined()->is_alone()) {
    const world::Launch launch = resolve::process_launch(config, joined_launch);
    if (launch.size > 1) {
      join(launch);
    }
    return joined();
  }
  const config::RuntimeConfig& keys = config.runtime;
  const world::Launch configured = world::configured_launch(
      joined_launch, keys.process_id, keys.num_processes, keys.coordinator_address);
  check(configured.coordinator == joined_launch.coordinator,
        "[coordinator_address] {}: the processes that {} started have connected at {} before any "
        "file was read\n"
        "  give it on the command line: coordinator_address={}",
        configured.coordinator, joined_launch.how, joined_launch.coordinator,
        configured.coordinator);
  return joined();
}

void warn_with_ranks(const std::string& text) {
  warn(text);
  if (world::Heartbeat* heartbeat = joined() ? joined()->heartbeat() : nullptr) {
    heartbeat->notice(text);
  }
}

void show_last_notices() {
  if (world::Heartbeat* heartbeat = joined() ? joined()->heartbeat() : nullptr) {
    heartbeat->show_last();
  }
}

void end_all_by(int signal) {
  if (world::Heartbeat* heartbeat = joined() ? joined()->heartbeat() : nullptr) {
    constexpr double kReportSeconds = 2;  // seconds
    heartbeat->fail("ended immediately after a second request", kReportSeconds);
    if (joined()->is_first()) {
      heartbeat->set_printed();
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
    const world::Heartbeat* const heartbeat = joined()->heartbeat();
    const std::string why = heartbeat == nullptr ? "" : heartbeat->failure();
    print_of_several(*joined(), why.empty() || error.find(why) == std::string::npos ? error : why);
  }
  std::fprintf(stderr, "kinema: %s\n", printable_message(error).c_str());
  return 1;
}

}  // namespace kinema::cli
