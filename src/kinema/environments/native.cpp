#include "kinema/environments/native.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/environments/cart_pole.h"
#include "kinema/environments/catch.h"
#include "kinema/environments/dummy.h"
#include "kinema/environments/key_grid.h"
#include "kinema/environments/native_group.h"
#include "kinema/environments/nearest.h"
#include "kinema/environments/pendulum.h"
#include "kinema/environments/settings.h"
#include "kinema/environments/wrappers.h"

namespace kinema::environments {
namespace {

struct NativeTask {
  std::string_view name;
  int64_t limit;  // steps of an episode; 0: episodes end without a limit
  std::unique_ptr<Environment> (*make)(Settings& settings, const Seed& seed);
};

template <typename Kind, auto... Words>
std::unique_ptr<Environment> make(Settings& settings, const Seed& seed) {
  return std::make_unique<Kind>(settings, seed, Words...);
}

constexpr std::array kTasks{
    NativeTask{"native_catch", 0, make<Catch>},
    NativeTask{"native_cartpole", 200, make<CartPole>},
    NativeTask{"native_pendulum", 200, make<Pendulum>},
    NativeTask{"native_grid", 100, make<KeyGrid>},
    NativeTask{"dummy_disc", 0, make<Dummy, Dummy::Actions::DISCRETE>},
    NativeTask{"dummy_cont", 0, make<Dummy, Dummy::Actions::CONTINUOUS>},
};

}  // namespace

std::vector<std::string> native_tasks() {
  std::vector<std::string> out;
  for (const NativeTask& task : kTasks) {
    out.emplace_back(task.name);
  }
  return out;
}

std::unique_ptr<Group> open_native_group(const GroupOptions& options) {
  const auto task = std::ranges::find(kTasks, options.task, &NativeTask::name);
  check(task != kTasks.end(), "[environments] there is no task `{}`\n  {}", options.task,
        suggestion(options.task, native_tasks()));
  constexpr int64_t kMostSteps = 1'000'000'000;
  constexpr int64_t kMostRepeats = 1000;
  Settings settings(options.settings, options.task);
  const int64_t limit = settings.whole("limit", task->limit, 0, kMostSteps);
  const int64_t repeat = settings.whole("repeat", 1, 1, kMostRepeats);
  std::vector<std::unique_ptr<Environment>> all;
  for (int64_t i = 0; i < options.count; ++i) {
    auto environment = task->make(settings, {options.seed, options.first + i});
    if (repeat > 1) {
      environment = with_action_repeat(std::move(environment), repeat);
    }
    if (limit > 0) {
      environment = with_time_limit(std::move(environment), limit);
    }
    all.push_back(std::move(environment));
  }
  settings.check_all_read();
  return native_group(std::move(all), repeat);
}

}  // namespace kinema::environments
