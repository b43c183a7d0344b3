#include "kinema/agents/driver.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kinema/agents/spaces.h"
#include "kinema/core/error.h"
#include "kinema/core/threefry.h"

namespace kinema::agents {
namespace {

using environments::Arrays;
using environments::GroupSteps;
using environments::Space;

constexpr std::string_view kReady = "ready/";
constexpr std::string_view kLog = "ready/log/";
constexpr std::string_view kMemory = "memory/";

HostArray scalar(float value) { return HostArray::f32({}, std::vector<float>{value}); }
HostArray scalar(uint8_t value) {
  return HostArray::from<uint8_t>(DType::U8, {}, std::vector<uint8_t>{value});
}

HostArray bytes_of(std::span<const uint8_t> values) {
  return HostArray::from<uint8_t>(DType::U8, {std::ssize(values)}, values);
}

HostArray text_array(const std::string& text) {
  HostArray out(Shape{DType::U8, {std::ssize(text)}});
  std::memcpy(out.bytes.data(), text.data(), text.size());
  return out;
}

std::string text_in(const HostArray& array) {
  return {reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size()};
}

const HostArray& array_of(const Arrays& arrays, const std::string& name) {
  const auto found = arrays.find(name);
  check(found != arrays.end(), "[agents] the saved environments have no `{}`", name);
  return found->second;
}

template <typename T>
std::vector<T> values_of(const Arrays& arrays, const std::string& name, int64_t n) {
  const HostArray& array = array_of(arrays, name);
  check(array.shape.dims == Dims{n}, "[agents] saved `{}` is {} but there are {} environments",
        name, to_string(array.shape), n);
  const auto values = array.as<T>();
  return {values.begin(), values.end()};
}

/// An action that is drawn uniformly: of floats, in [-1, 1].
HostArray random_action(const Space& space, int64_t n, RandomStream& random) {
  Dims dims{n};
  dims.insert(dims.end(), space.shape.begin(), space.shape.end());
  if (space.is_discrete()) {
    HostArray out(Shape{DType::S32, dims});
    for (int32_t& value : out.as<int32_t>()) {
      value = static_cast<int32_t>(random.below(static_cast<uint64_t>(space.classes())));
    }
    return out;
  }
  HostArray out(Shape{DType::F32, dims});
  for (float& value : out.as<float>()) {
    value = 2.0F * random.uniform() - 1.0F;
  }
  return out;
}

}  // namespace

Driver::Driver(std::unique_ptr<environments::Group> group, std::unique_ptr<Actor> actor,
               std::shared_ptr<replay::Replay> replay, int64_t first, uint64_t seed)
    : group_(std::move(group)),
      actor_(std::move(actor)),
      replay_(std::move(replay)),
      first_(first),
      seed_(seed),
      running_(static_cast<size_t>(group_->size())) {}

GroupSteps Driver::next_steps() {
  if (ready_) {
    GroupSteps steps = std::move(*ready_);
    ready_.reset();
    return steps;
  }
  if (!begun_) {
    Transition none;
    for (const auto& [name, space] : group_->actions()) {
      Dims dims{size()};
      dims.insert(dims.end(), space.shape.begin(), space.shape.end());
      none.actions[name] = for_agent(space, HostArray(Shape{space.dtype, dims}));
    }
    none.is_last.assign(static_cast<size_t>(size()), 1);
    begin(none);
  }
  return group_->end();
}

void Driver::begin(const Transition& now) {
  Arrays actions;
  for (const auto& [name, space] : group_->actions()) {
    actions[name] = for_environment(space, now.actions.at(name));
  }
  group_->begin(actions, now.is_last);
  begun_ = true;
}

Actor::Acted Driver::random_actions(int64_t call) const {
  RandomStream random(random_key(seed_, "random actions", static_cast<uint64_t>(call)));
  Actor::Acted out;
  for (const auto& [name, space] : group_->actions()) {
    out.actions[name] = random_action(space, size(), random);
  }
  return out;
}

std::vector<Episode> Driver::step(int64_t call, const OnStep& on_step) {
  GroupSteps steps = next_steps();
  Transition now{.reward = steps.reward,
                 .is_first = steps.is_first,
                 .is_last = steps.is_last,
                 .is_terminal = steps.is_terminal};
  for (const auto& [name, space] : group_->observations()) {
    now.observations[name] = for_agent(space, steps.observations.at(name));
  }
  Actor::Acted acted =
      actor_ ? actor_->act(now.observations, now.is_first, call) : random_actions(call);
  now.actions = std::move(acted.actions);
  for (auto& [name, actions] : now.actions) {
    for (int64_t i = 0; i < size(); ++i) {
      if (now.is_last[static_cast<size_t>(i)] != 0) {
        clear_row(actions, i);
      }
    }
  }
  begin(now);
  if (replay_) {
    keep(now, acted.latents);
  }
  if (on_step) {
    on_step(now);
  }
  return count(steps);
}

void Driver::keep(const Transition& now, const Arrays& latents) {
  for (int64_t i = 0; i < size(); ++i) {
    const auto at = static_cast<size_t>(i);
    replay::Arrays step{{"reward", scalar(now.reward[at])},
                        {"is_first", scalar(now.is_first[at])},
                        {"is_last", scalar(now.is_last[at])},
                        {"is_terminal", scalar(now.is_terminal[at])}};
    for (const Arrays* part : {&now.observations, &now.actions, &latents}) {
      for (const auto& [name, rows] : *part) {
        step[name] = row_of(rows, i);
      }
    }
    replay_->add(step, first_ + i);
  }
}

std::vector<Episode> Driver::count(const GroupSteps& steps) {
  constexpr float kReward = 0.01F;  // what counts as one
  std::vector<Episode> out;
  for (size_t i = 0; i < running_.size(); ++i) {
    Running& running = running_[i];
    if (steps.is_first[i] != 0) {
      running = {};
    }
    running.score += static_cast<double>(steps.reward[i]);
    ++running.length;
    running.rewarded += std::abs(steps.reward[i]) >= kReward ? 1 : 0;
    for (const auto& [name, values] : steps.log) {
      const auto value = static_cast<double>(values.as<float>()[i]);
      const bool is_new = !running.logs.contains(name);
      Running::Log& log = running.logs[name];
      log.sum += value;
      log.max = is_new ? value : std::max(log.max, value);
    }
    if (steps.is_last[i] == 0) {
      continue;
    }
    const auto length = static_cast<double>(running.length);
    Episode episode{.score = running.score, .length = running.length};
    episode.statistics["reward_rate"] = static_cast<double>(running.rewarded) / length;
    for (const auto& [name, log] : running.logs) {
      const std::string key = name.starts_with("log/") ? name : "log/" + name;
      episode.statistics[key + "/avg"] = log.sum / length;
      episode.statistics[key + "/max"] = log.max;
      episode.statistics[key + "/sum"] = log.sum;
    }
    out.push_back(std::move(episode));
  }
  return out;
}

Arrays Driver::state() {
  Arrays out;
  if (!ready_) {
    ready_ = next_steps();
  }
  const std::optional<std::string> group = group_->state();
  if (!group) {
    return out;
  }
  out["group"] = text_array(*group);
  for (const auto& [name, rows] : ready_->observations) {
    out[std::string(kReady) + "observation/" + name] = rows;
  }
  for (const auto& [name, rows] : ready_->log) {
    out[std::string(kLog) + name] = rows;
  }
  out["ready/reward"] = HostArray::f32({size()}, ready_->reward);
  out["ready/is_first"] = bytes_of(ready_->is_first);
  out["ready/is_last"] = bytes_of(ready_->is_last);
  out["ready/is_terminal"] = bytes_of(ready_->is_terminal);
  HostArray episodes(Shape{DType::F64, {size(), 3}});
  for (size_t i = 0; i < running_.size(); ++i) {
    double* row = episodes.as<double>().data() + 3 * i;
    row[0] = running_[i].score;
    row[1] = static_cast<double>(running_[i].length);
    row[2] = static_cast<double>(running_[i].rewarded);
    for (const auto& [name, log] : running_[i].logs) {
      HostArray& rows = out["episode_log/" + name];
      if (rows.bytes.empty()) {
        rows = HostArray(Shape{DType::F64, {size(), 2}});
      }
      rows.as<double>()[2 * i] = log.sum;
      rows.as<double>()[2 * i + 1] = log.max;
    }
  }
  out["episodes"] = std::move(episodes);
  if (actor_) {
    for (auto& [name, rows] : actor_->memory()) {
      out[std::string(kMemory) + name] = rows;
    }
  }
  return out;
}

bool Driver::restore(const Arrays& state) {
  if (!state.contains("group")) {
    return false;
  }
  GroupSteps ready{.reward = values_of<float>(state, "ready/reward", size()),
                   .is_first = values_of<uint8_t>(state, "ready/is_first", size()),
                   .is_last = values_of<uint8_t>(state, "ready/is_last", size()),
                   .is_terminal = values_of<uint8_t>(state, "ready/is_terminal", size())};
  for (const auto& [name, space] : group_->observations()) {
    ready.observations[name] = array_of(state, std::string(kReady) + "observation/" + name);
  }
  Arrays memory;
  for (const auto& [name, rows] : state) {
    if (name.starts_with(kLog)) {
      ready.log[name.substr(kLog.size())] = rows;
    } else if (name.starts_with(kMemory)) {
      memory[name.substr(kMemory.size())] = rows;
    }
  }
  const HostArray& episodes = array_of(state, "episodes");
  check(episodes.shape == (Shape{DType::F64, {size(), 3}}),
        "[agents] saved episodes are {} but there are {} environments", to_string(episodes.shape),
        size());
  for (size_t i = 0; i < running_.size(); ++i) {
    const double* row = episodes.as<double>().data() + 3 * i;
    running_[i] = {.score = row[0],
                   .length = static_cast<int64_t>(row[1]),
                   .rewarded = static_cast<int64_t>(row[2])};
    for (const auto& [name, rows] : state) {
      constexpr std::string_view kEpisodeLog = "episode_log/";
      if (name.starts_with(kEpisodeLog)) {
        running_[i].logs[name.substr(kEpisodeLog.size())] = {.sum = rows.as<double>()[2 * i],
                                                             .max = rows.as<double>()[2 * i + 1]};
      }
    }
  }
  if (actor_) {
    actor_->restore(memory);
  }
  group_->restore(text_in(array_of(state, "group")));
  ready_ = std::move(ready);
  begun_ = true;
  return true;
}

}  // namespace kinema::agents
