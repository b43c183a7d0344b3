#include "kinema/environments/python_group.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/environments/environment_server.h"
#include "kinema/environments/settings.h"

namespace kinema::environments {
namespace {

using Clock = std::chrono::steady_clock;

struct Restarts {
  int64_t failures = 2;
  double window = 300.0;  // seconds
  double wait = 1.0;
};

/// Environments of one process, and the process that has them now.
struct Slot {
  Served served;
  std::unique_ptr<EnvironmentServer> server;
  int64_t restarts = 0;
  int64_t failures = 0;  // since `since`
  Clock::time_point since = Clock::time_point::min();
  std::string lost = {};  // why the step that began cannot end
};

std::string described(const Space& space) {
  return fmt::format("{} from {} to {}", to_string(Shape{space.dtype, space.shape}), space.low,
                     space.high);
}

void check_same_spaces(const Spaces& before, const Spaces& now, const std::string& task) {
  for (const auto& [name, space] : before) {
    const auto same = now.find(name);
    check(same != now.end(), "[environments] {}: `{}` is missing after a restart", task, name);
    check(same->second == space,
          "[environments] {}: the space of `{}` was {}, and is {} in another process\n  "
          "environments of a group must have the same spaces, also after a restart",
          task, name, described(space), described(same->second));
  }
  check(before.size() == now.size(), "[environments] {}: spaces were added after a restart", task);
}

HostArray rows_of(const Space& space, int64_t count) {
  Dims dims{count};
  dims.insert(dims.end(), space.shape.begin(), space.shape.end());
  return HostArray(Shape{space.dtype, std::move(dims)});
}

class PythonGroup : public Group {
 public:
  PythonGroup(GroupOptions options, int64_t processes, const Restarts& restarts,
              double start_seconds)
      : options_(std::move(options)), restarts_(restarts), start_seconds_(start_seconds) {
    for (int64_t i = 0; i < processes; ++i) {
      const int64_t first = options_.count * i / processes;
      slots_.push_back({.served = {first, options_.count * (i + 1) / processes - first}});
    }
    // Imports take seconds, so all processes start at the same time.
    for_each_in_parallel(slots_.size(), static_cast<int>(slots_.size()), [&](size_t i) {
      try {
        slots_[i].server = started(slots_[i]);
      } catch (const ServerLost& error) {
        fail("[environments] {} cannot be started: {}", options_.task, error.what());
      }
    });
    for (const Slot& slot : slots_) {
      check_same_spaces(spaces(), slot.server->spaces());
    }
  }

  const Spaces& observations() const override { return spaces().observations; }
  const Spaces& actions() const override { return spaces().actions; }
  int64_t size() const override { return options_.count; }
  int64_t repeat() const override { return spaces().repeat; }

  void begin(const Arrays& actions, std::span<const uint8_t> reset) override {
    for (Slot& slot : slots_) {
      try {
        slot.server->begin(actions, reset);
      } catch (const ServerLost& error) {
        slot.lost = error.what();
      }
    }
  }

  GroupSteps end() override {
    GroupSteps out;
    const auto count = static_cast<size_t>(size());
    for (const auto& [name, space] : observations()) {
      out.observations[name] = rows_of(space, size());
    }
    out.reward.resize(count);
    for (auto* flags : {&out.is_first, &out.is_last, &out.is_terminal}) {
      flags->resize(count);
    }
    out.log["restarts"] = rows_of({}, size());
    for (const std::string& name : spaces().log) {
      out.log[log_name(name)] = rows_of({}, size());
    }
    for (Slot& slot : slots_) {
      if (slot.lost.empty()) {
        try {
          slot.server->end(out);
          continue;
        } catch (const ServerLost& error) {
          slot.lost = error.what();
        }
      }
      start_again(slot, out);
    }
    return out;
  }

 private:
  const ServedSpaces& spaces() const { return slots_[0].server->spaces(); }

  void check_same_spaces(const ServedSpaces& before, const ServedSpaces& now) const {
    environments::check_same_spaces(before.observations, now.observations, options_.task);
    environments::check_same_spaces(before.actions, now.actions, options_.task);
    check(before.log == now.log && before.repeat == now.repeat,
          "[environments] {}: the log values or repeats of two processes differ", options_.task);
  }

  std::unique_ptr<EnvironmentServer> started(const Slot& slot) const {
    return std::make_unique<EnvironmentServer>(options_, slot.served, slot.restarts,
                                               start_seconds_);
  }

  /// Counts a failure; throws an Error if it is one too many.
  void count_failure(Slot& slot) {
    const Clock::time_point now = Clock::now();
    if (slot.failures == 0 || now > slot.since + std::chrono::duration<double>(restarts_.window)) {
      slot.since = now;
      slot.failures = 0;
    }
    ++slot.failures;
    const int64_t last = slot.served.first + slot.served.count - 1;
    check(slot.failures <= restarts_.failures,
          "[environments] {}: the process of environments {} to {} failed {} times within {} s; "
          "the last time: {}",
          options_.task, slot.served.first, last, slot.failures, restarts_.window, slot.lost);
  }

  /// New processes until one has returned the first steps of new episodes.
  void start_again(Slot& slot, GroupSteps& out) {
    while (!slot.lost.empty()) {
      count_failure(slot);
      ++slot.restarts;
      std::this_thread::sleep_for(std::chrono::duration<double>(restarts_.wait));
      try {
        auto server = started(slot);
        check_same_spaces(spaces(), server->spaces());
        slot.server = std::move(server);
        Arrays zeros;
        for (const auto& [name, space] : actions()) {
          zeros[name] = rows_of(space, size());
        }
        slot.server->begin(zeros, std::vector<uint8_t>(static_cast<size_t>(size()), 1));
        slot.server->end(out);
        slot.lost.clear();
      } catch (const ServerLost& error) {
        slot.lost = error.what();
      }
    }
    const auto first = static_cast<size_t>(slot.served.first);
    std::fill_n(out.log.at("restarts").as<float>().begin() + static_cast<std::ptrdiff_t>(first),
                slot.served.count, 1.0F);
  }

  GroupOptions options_;
  Restarts restarts_;
  double start_seconds_;
  std::vector<Slot> slots_;
};

}  // namespace

std::vector<std::string> python_suites() {
  return {"gymnasium", "atari", "atari100k", "crafter", "dmc", "procgen", "minigrid", "bsuite"};
}

std::unique_ptr<Group> open_python_group(const GroupOptions& options) {
  constexpr double kMostSeconds = 1e6;
  constexpr int64_t kMostFailures = 1'000'000;
  Settings settings(options.settings, options.task);
  GroupOptions of_servers = options;
  const int64_t given = settings.whole("processes", 0, 0, options.count);
  const int64_t threads = options.address.empty() ? int64_t{processor_threads()} : options.count;
  Restarts restarts;
  restarts.failures = settings.whole("restart_failures", restarts.failures, 0, kMostFailures);
  restarts.window = settings.number("restart_window", restarts.window, 0.0, kMostSeconds);
  restarts.wait = settings.number("restart_wait", restarts.wait, 0.0, kMostSeconds);
  constexpr double kStartSeconds = 300.0;
  const double start = settings.number("start_timeout", kStartSeconds, 0.0, kMostSeconds);
  io::Json passed = io::Json::object();
  for (const auto& [name, value] : settings.json().members()) {
    if (name != "processes" && name != "start_timeout") {
      passed.set(name, value);
    }
  }
  of_servers.settings = passed.dump(-1);
  return std::make_unique<PythonGroup>(
      std::move(of_servers), given > 0 ? given : std::min(options.count, threads), restarts, start);
}

}  // namespace kinema::environments
