#include "kinema/environments/wrapped_group.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/environments/values.h"

namespace kinema::environments {
namespace {

/// Limits that are mapped to [-1, 1].
bool has_limits(const Space& space) {
  return std::isfinite(space.low) && std::isfinite(space.high);
}

Space with_unified_dtype(Space space) {
  if (space.dtype == DType::PRED) {
    space.low = 0.0;
    space.high = 2.0;
  }
  if (space.dtype != DType::U8) {
    space.dtype = is_float(space.dtype) ? DType::F32 : DType::S32;
  }
  return space;
}

Spaces with_unified_dtypes(Spaces spaces) {
  for (auto& [name, space] : spaces) {
    space = with_unified_dtype(space);
  }
  return spaces;
}

Spaces with_normal_actions(Spaces spaces) {
  for (auto& [name, space] : spaces) {
    if (is_float(space.dtype)) {
      space.low = -1.0;
      space.high = 1.0;
    }
  }
  return spaces;
}

void check_names(const Spaces& observations, const Spaces& actions, const std::string& task) {
  constexpr std::array kReserved{"reward", "is_first", "is_last", "is_terminal", "reset"};
  for (const char* name : kReserved) {
    check(!observations.contains(name) && !actions.contains(name),
          "[environments] {} has an observation or action `{}`, a name that steps have themselves",
          task, name);
  }
  for (const auto& [name, space] : actions) {
    check(!observations.contains(name),
          "[environments] {} has both an observation and an action `{}`", task, name);
  }
}

class WrappedGroup : public Group {
 public:
  WrappedGroup(std::unique_ptr<Group> group, std::string task)
      : group_(std::move(group)),
        task_(std::move(task)),
        observations_(with_unified_dtypes(group_->observations())),
        actions_(with_normal_actions(with_unified_dtypes(group_->actions()))) {
    check_names(observations_, actions_, task_);
  }

  const Spaces& observations() const override { return observations_; }
  const Spaces& actions() const override { return actions_; }
  int64_t size() const override { return group_->size(); }
  int64_t repeat() const override { return group_->repeat(); }
  std::optional<std::string> state() const override { return group_->state(); }
  void restore(std::string_view state) override { group_->restore(state); }

  void begin(const Arrays& actions, std::span<const uint8_t> reset) override {
    check(static_cast<int64_t>(reset.size()) == size(),
          "[environments] {}: {} flags `reset` for {} environments", task_, reset.size(), size());
    Arrays of_environment;
    for (const auto& [name, space] : actions_) {
      const auto given = actions.find(name);
      check(given != actions.end(), "[environments] {}: the action `{}` is missing", task_, name);
      of_environment[name] = action(given->second, name, space, reset);
    }
    group_->begin(of_environment, reset);
  }

  GroupSteps end() override {
    GroupSteps out = group_->end();
    for (const auto& [name, space] : observations_) {
      HostArray& values = out.observations.at(name);
      if (values.shape.dtype != space.dtype) {
        values = converted(values, space.dtype);
      }
      check_values(values, space, size(), task_ + ": observation", name);
    }
    for (size_t i = 0; i < out.reward.size(); ++i) {
      check(std::isfinite(out.reward[i]), "[environments] {}: the reward of environment {} is {}",
            task_, i, out.reward[i]);
    }
    return out;
  }

 private:
  /// An agent's action as the environment's.
  HostArray action(HostArray values, const std::string& name, const Space& space,
                   std::span<const uint8_t> reset) const {
    const bool is_continuous = space.dtype == DType::F32 && values.shape.dtype == DType::F32;
    if (is_continuous) {
      for (float& value : values.as<float>()) {
        value = std::clamp(value, -1.0F, 1.0F);
      }
    }
    check_values(values, space, size(), task_ + ": action", name, reset);
    const Space& inner = group_->actions().at(name);
    if (is_continuous && has_limits(inner)) {
      for (float& value : values.as<float>()) {
        value = static_cast<float>(
            (static_cast<double>(value) + 1.0) / 2.0 * (inner.high - inner.low) + inner.low);
      }
    }
    return converted(values, inner.dtype);
  }

  std::unique_ptr<Group> group_;
  std::string task_;
  Spaces observations_;
  Spaces actions_;
};

}  // namespace

std::unique_ptr<Group> wrapped(std::unique_ptr<Group> group, std::string task) {
  return std::make_unique<WrappedGroup>(std::move(group), std::move(task));
}

}  // namespace kinema::environments
