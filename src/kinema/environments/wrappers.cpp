#include "kinema/environments/wrappers.h"

#include <utility>

namespace kinema::environments {
namespace {

class Wrapper : public Environment {
 public:
  explicit Wrapper(std::unique_ptr<Environment> environment)
      : environment_(std::move(environment)) {}
  const Spaces& observations() const override { return environment_->observations(); }
  const Spaces& actions() const override { return environment_->actions(); }
  void set_next_episode(int64_t episode) override { environment_->set_next_episode(episode); }

 protected:
  std::unique_ptr<Environment> environment_;
};

class TimeLimit : public Wrapper {
 public:
  TimeLimit(std::unique_ptr<Environment> environment, int64_t steps)
      : Wrapper(std::move(environment)), limit_(steps) {}

  Step step(const Arrays& action, bool reset) override {
    Step out = environment_->step(action, reset || is_over_);
    steps_ = out.is_first ? 0 : steps_ + 1;
    out.is_last = out.is_last || steps_ >= limit_;
    is_over_ = out.is_last;
    return out;
  }

 private:
  int64_t limit_;
  int64_t steps_ = 0;
  bool is_over_ = true;
};

class ActionRepeat : public Wrapper {
 public:
  ActionRepeat(std::unique_ptr<Environment> environment, int64_t times)
      : Wrapper(std::move(environment)), times_(times) {}

  Step step(const Arrays& action, bool reset) override {
    Step out = environment_->step(action, reset);
    if (out.is_first) {
      return out;
    }
    float reward = out.reward;
    for (int64_t i = 1; i < times_ && !out.is_last; ++i) {
      out = environment_->step(action, false);
      reward += out.reward;
    }
    out.reward = reward;
    return out;
  }

 private:
  int64_t times_;
};

}  // namespace

std::unique_ptr<Environment> with_time_limit(std::unique_ptr<Environment> environment,
                                             int64_t steps) {
  return std::make_unique<TimeLimit>(std::move(environment), steps);
}

std::unique_ptr<Environment> with_action_repeat(std::unique_ptr<Environment> environment,
                                                int64_t times) {
  return std::make_unique<ActionRepeat>(std::move(environment), times);
}

}  // namespace kinema::environments
