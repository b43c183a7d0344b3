#include "kinema/environments/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <utility>

#include "environments/steps.h"
#include "kinema/core/error.h"
#include "kinema/environments/native_group.h"
#include "kinema/environments/wrapped_group.h"

namespace kinema::environments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// An environment that a test describes.
class Described : public Environment {
 public:
  const Spaces& observations() const override { return observation_spaces; }
  const Spaces& actions() const override { return action_spaces; }
  Step step(const Arrays& action, bool reset) override {
    return reset ? Step{.observation = observation, .is_first = true} : next(action);
  }
  void set_next_episode(int64_t /*episode*/) override {}

  Spaces observation_spaces;
  Spaces action_spaces;
  Arrays observation;
  std::function<Step(const Arrays&)> next = [this](const Arrays&) {
    return Step{.observation = observation};
  };
};

std::unique_ptr<Group> group_of(std::unique_ptr<Described> environment) {
  std::vector<std::unique_ptr<Environment>> all;
  all.push_back(std::move(environment));
  return wrapped(native_group(std::move(all)), "test_task");
}

HostArray number(float value) { return HostArray::f32({}, std::vector<float>{value}); }

/// One observation `x` F32 [] in [-2, 5].
std::unique_ptr<Described> described(float value) {
  auto out = std::make_unique<Described>();
  out->observation_spaces["x"] = {DType::F32, {}, -2.0, 5.0};
  out->action_spaces["action"] = {DType::S32, {}, 0, 3};
  out->observation["x"] = number(value);
  return out;
}

TEST(WrappedGroup, MapsActionsToTheirLimitsAndClipsThem) {
  auto environment = described(0);
  environment->action_spaces["action"] = {DType::F32, {3}, -1.0, 4.0};
  environment->action_spaces["free"] = {DType::F32, {2}, 0.0};
  Arrays seen;
  environment->next = [&seen, x = environment->observation](const Arrays& action) {
    seen = action;
    return Step{.observation = x};
  };
  const auto group = group_of(std::move(environment));
  EXPECT_EQ(group->actions().at("action"), (Space{DType::F32, {3}, -1.0, 1.0}));
  EXPECT_EQ(group->actions().at("free"), (Space{DType::F32, {2}, -1.0, 1.0}));
  const Arrays actions{{"action", HostArray::f32({1, 3}, std::vector<float>{-1.0F, 0.5F, 1.7F})},
                       {"free", HostArray::f32({1, 2}, std::vector<float>{-0.25F, -3.0F})}};
  for (const uint8_t reset : {1, 0}) {
    group->begin(actions, std::vector<uint8_t>{reset});
    group->end();
  }
  EXPECT_THAT(floats(seen.at("action")), ElementsAre(-1.0F, 2.75F, 4.0F));
  EXPECT_THAT(floats(seen.at("free")), ElementsAre(-0.25F, -1.0F));
}

TEST(WrappedGroup, UnifiesDtypes) {
  auto environment = std::make_unique<Described>();
  environment->observation_spaces = {{"big", {DType::S64, {2}, -10, 10}},
                                     {"double", {DType::F64, {}}},
                                     {"flag", {DType::PRED, {2}}},
                                     {"image", {DType::U8, {1, 1, 3}, 0, 256}}};
  environment->action_spaces = {{"flag_action", {DType::PRED, {}}},
                                {"wide", {DType::S64, {}, 0, 7}}};
  environment->observation = {
      {"big", HostArray::from<int64_t>(DType::S64, {2}, std::vector<int64_t>{-10, 9})},
      {"double", HostArray::from<double>(DType::F64, {}, std::vector<double>{0.1})},
      {"flag", HostArray::from<uint8_t>(DType::PRED, {2}, std::vector<uint8_t>{0, 1})},
      {"image", HostArray::from<uint8_t>(DType::U8, {1, 1, 3}, std::vector<uint8_t>{0, 128, 255})}};
  Arrays seen;
  environment->next = [&seen, all = environment->observation](const Arrays& action) {
    seen = action;
    return Step{.observation = all};
  };
  const auto group = group_of(std::move(environment));
  EXPECT_EQ(group->observations().at("big"), (Space{DType::S32, {2}, -10, 10}));
  EXPECT_EQ(group->observations().at("flag"), (Space{DType::S32, {2}, 0, 2}));
  EXPECT_EQ(group->observations().at("double").dtype, DType::F32);
  EXPECT_EQ(group->observations().at("image").dtype, DType::U8);
  EXPECT_EQ(group->actions().at("flag_action").classes(), 2);
  const Arrays actions{
      {"flag_action", HostArray::from<int32_t>(DType::S32, {1}, std::vector<int32_t>{1})},
      {"wide", HostArray::from<int32_t>(DType::S32, {1}, std::vector<int32_t>{6})}};
  GroupSteps now;
  for (const uint8_t reset : {1, 0}) {
    group->begin(actions, std::vector<uint8_t>{reset});
    now = group->end();
  }
  EXPECT_THAT(now.observations.at("big").as<int32_t>(), ElementsAre(-10, 9));
  EXPECT_THAT(floats(now.observations.at("double")), ElementsAre(0.1F));
  EXPECT_THAT(now.observations.at("flag").as<int32_t>(), ElementsAre(0, 1));
  EXPECT_THAT(bytes(now.observations.at("image")), ElementsAre(0, 128, 255));
  EXPECT_EQ(seen.at("flag_action").shape, (Shape{DType::PRED, {}}));
  EXPECT_THAT(seen.at("flag_action").as<uint8_t>(), ElementsAre(1));
  EXPECT_THAT(seen.at("wide").as<int64_t>(), ElementsAre(6));
}

TEST(WrappedGroup, NamesTheObservationThatIsOutsideItsSpace) {
  const auto message = [](float value) {
    try {
      step(*group_of(described(value)), {0}, true);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(-2.0F), "");
  EXPECT_EQ(message(5.0F), "");
  EXPECT_THAT(message(5.001F),
              HasSubstr("[environments] test_task: observation `x` of environment 0 is 5.001"));
  EXPECT_THAT(message(-3.0F), HasSubstr("expected a number from -2 to 5"));
  EXPECT_THAT(message(std::numeric_limits<float>::quiet_NaN()), HasSubstr("is nan"));

  auto infinite = described(std::numeric_limits<float>::infinity());
  infinite->observation_spaces["x"] = {DType::F32, {}};
  EXPECT_THAT([&] { step(*group_of(std::move(infinite)), {0}, true); },
              ThrowsMessage<Error>(HasSubstr("`x` of environment 0 is inf")));
}

TEST(WrappedGroup, RefusesOtherShapesActionsAndRewards) {
  auto wide = described(0);
  wide->observation["x"] = HostArray::f32({2}, std::vector<float>{0, 0});
  EXPECT_THAT([&] { step(*group_of(std::move(wide)), {0}, true); },
              ThrowsMessage<Error>(HasSubstr("an observation `x` is f32[2], expected []")));

  const auto group = group_of(described(0));
  step(*group, {99}, true);  // ignored
  EXPECT_THAT([&] { step(*group, {3}); },
              ThrowsMessage<Error>(HasSubstr("action `action` of environment 0 is 3 at element 0, "
                                             "expected an integer from 0 to 2")));
  EXPECT_THAT([&] { step(*group, {0, 1}); }, ThrowsMessage<Error>(HasSubstr("2 flags `reset`")));
  EXPECT_THAT([&] { group->begin({}, std::vector<uint8_t>{0}); },
              ThrowsMessage<Error>(HasSubstr("the action `action` is missing")));
  EXPECT_THAT([&] { push(*group, {0}); },
              ThrowsMessage<Error>(HasSubstr("`action` is f32[1,1], expected s32[1]")));

  auto unpaid = described(0);
  unpaid->next = [x = unpaid->observation](const Arrays&) {
    return Step{.observation = x, .reward = std::numeric_limits<float>::quiet_NaN()};
  };
  const auto unpaid_group = group_of(std::move(unpaid));
  step(*unpaid_group, {0}, true);
  EXPECT_THAT([&] { step(*unpaid_group, {0}); },
              ThrowsMessage<Error>(HasSubstr("the reward of environment 0 is nan")));
}

TEST(WrappedGroup, RefusesNamesThatMeanSomethingElse) {
  auto both = described(0);
  both->action_spaces["x"] = {DType::F32, {}};
  EXPECT_THAT([&] { group_of(std::move(both)); },
              ThrowsMessage<Error>(HasSubstr("both an observation and an action `x`")));
  auto reward = described(0);
  reward->observation_spaces["reward"] = {DType::F32, {}};
  EXPECT_THAT([&] { group_of(std::move(reward)); },
              ThrowsMessage<Error>(HasSubstr("an observation or action `reward`")));
}

TEST(NativeGroup, CollectsLogValues) {
  auto environment = described(0);
  environment->next = [x = environment->observation](const Arrays&) {
    return Step{.observation = x, .log = {{"wood", 3.0}}};
  };
  const auto group = group_of(std::move(environment));
  EXPECT_TRUE(step(*group, {0}, true).log.empty());
  EXPECT_THAT(floats(step(*group, {0}).log.at("wood")), ElementsAre(3.0F));
}

/// Random actions that fit the group.
Arrays random_actions(const Group& group, std::mt19937& random) {
  Arrays out;
  for (const auto& [name, space] : group.actions()) {
    Dims dims{group.size()};
    dims.insert(dims.end(), space.shape.begin(), space.shape.end());
    HostArray values(Shape{space.dtype, dims});
    if (space.is_discrete()) {
      for (int32_t& value : values.as<int32_t>()) {
        value = static_cast<int32_t>(random() % static_cast<uint32_t>(space.classes()));
      }
    } else {
      for (float& value : values.as<float>()) {
        value = std::uniform_real_distribution<float>(-1.5F, 1.5F)(random);
      }
    }
    out[name] = std::move(values);
  }
  return out;
}

std::vector<std::byte> all_bytes(const GroupSteps& steps) {
  std::vector<std::byte> out;
  const auto add = [&](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    out.insert(out.end(), bytes.begin(), bytes.end());
  };
  for (const auto& [name, values] : steps.observations) {
    add(values.bytes);
  }
  add(steps.reward);
  add(steps.is_first);
  add(steps.is_last);
  add(steps.is_terminal);
  return out;
}

TEST(NativeGroup, ContinuesBitForBitFromItsState) {
  for (const std::string task :
       {"native_catch", "native_cartpole", "native_pendulum", "native_grid", "dummy_cont"}) {
    SCOPED_TRACE(task);
    const GroupOptions options{
        .task = task, .count = 3, .first = 2, .seed = 11, .settings = R"({"repeat": 2})"};
    std::mt19937 random(3);  // NOLINT(*-msc51-cpp): the same each time
    const auto group = open_group(options);
    const std::string unused = group->state().value();
    std::vector<std::string> states;
    std::vector<Arrays> actions;
    std::vector<std::vector<uint8_t>> resets;
    std::vector<std::vector<std::byte>> steps;
    for (int i = 0; i < 250; ++i) {
      states.push_back(group->state().value());
      actions.push_back(random_actions(*group, random));
      resets.push_back({static_cast<uint8_t>(random() % 50 == 0), 0, 0});
      group->begin(actions.back(), resets.back());
      steps.push_back(all_bytes(group->end()));
    }
    EXPECT_EQ(states[0], unused);
    for (const size_t from : {0U, 1U, 7U, 100U, 183U, 249U}) {
      const auto again = open_group(options);
      again->restore(states[from]);
      EXPECT_EQ(again->state().value(), states[from]);
      for (size_t i = from; i < steps.size(); ++i) {
        again->begin(actions[i], resets[i]);
        ASSERT_EQ(all_bytes(again->end()), steps[i]) << "step " << i << " from " << from;
      }
    }
  }
}

TEST(NativeGroup, RefusesTheStateOfAnotherGroup) {
  const auto group = open_group({.task = "native_catch", .count = 2});
  const auto other = open_group({.task = "native_catch", .count = 3});
  EXPECT_THAT([&] { group->restore(other->state().value()); },
              ThrowsMessage<Error>(HasSubstr("of 3 environments, expected 2")));
  EXPECT_THAT([&] { group->restore("[{}"); }, ThrowsMessage<Error>(HasSubstr("the state of")));
  EXPECT_THAT(
      [&] { group->restore(R"([{"episode":0,"over":false,"actions":"01"},{"episode":0}])"); },
      ThrowsMessage<Error>(HasSubstr("actions of another environment")));
  EXPECT_THAT(
      [&] { group->restore(R"([{"episode":0,"over":true,"actions":"01000000"},{"episode":0}])"); },
      ThrowsMessage<Error>(HasSubstr("do not lead to the stored state")));
  EXPECT_THAT(
      [&] { group->restore(R"([{"episode":0,"over":true,"actions":"0100000x"},{"episode":0}])"); },
      ThrowsMessage<Error>(HasSubstr("digit `x`")));
}

}  // namespace
}  // namespace kinema::environments
