#include "kinema/environments/native.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "environments/steps.h"
#include "kinema/core/error.h"
#include "kinema/environments/cart_pole.h"
#include "kinema/environments/pendulum.h"

namespace kinema::environments {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::unique_ptr<Group> open(const std::string& task, const std::string& settings = "",
                            int64_t count = 1, uint64_t seed = 0) {
  return open_group({.task = task, .count = count, .seed = seed, .settings = settings});
}

/// The column of the first pixel of a value in a row.
int column_of(const std::vector<int>& image, int width, int row, int value) {
  const auto begin = image.begin() + static_cast<std::ptrdiff_t>(row) * width;
  return static_cast<int>(std::find(begin, begin + width, value) - begin);
}

TEST(Catch, IsWonByFollowingTheBall) {
  const auto group = open("native_catch");
  for (int episode = 0; episode < 50; ++episode) {
    GroupSteps now = step(*group, {0}, episode == 0);
    EXPECT_EQ(now.is_first[0], 1);
    EXPECT_EQ(now.reward[0], 0.0F);
    int steps = 1;
    while (now.is_last[0] == 0) {
      const std::vector<int> image = bytes(now.observations.at("image"));
      const int ball = column_of(image, 10, 2 * (steps - 1), 255);
      const int paddle = column_of(image, 10, 9, 128);
      now = step(*group, {ball < paddle ? 0 : ball == paddle ? 1 : 2});
      ++steps;
    }
    EXPECT_EQ(steps, 5);
    EXPECT_EQ(now.is_terminal[0], 1);
    EXPECT_EQ(now.reward[0], 1.0F);
  }
}

TEST(Catch, IsLostByStandingElsewhere) {
  const auto group = open("native_catch");
  std::set<float> rewards;
  for (int i = 0; i < 500; ++i) {
    const GroupSteps now = step(*group, {1});
    if (now.is_last[0] != 0) {
      rewards.insert(now.reward[0]);
    } else {
      EXPECT_EQ(now.reward[0], 0.0F);
    }
  }
  EXPECT_THAT(rewards, ElementsAre(-1.0F, 1.0F));
}

TEST(Catch, DrawsCellsOfTheGivenSize) {
  const auto group = open("native_catch", R"({"rows": 3, "columns": 4, "cell": 3})");
  EXPECT_THAT(group->observations().at("image").shape, ElementsAre(9, 12, 1));
  const std::vector<int> image = bytes(step(*group, {0}, true).observations.at("image"));
  EXPECT_EQ(std::ranges::count(image, 255), 9);
  EXPECT_EQ(std::ranges::count(image, 128), 9);
  EXPECT_EQ(std::ranges::count(image, 0), 9 * 12 - 18);
}

// The states of gymnasium 1.4's CartPole-v1 from this one, with actions 1, 1, 0, 1.
TEST(CartPole, MovesAsInGymnasium) {
  CartPoleState state{0.1, -0.2, 0.05, 0.3};
  const std::array<CartPoleState, 4> expected{
      {{0.096, -0.005625065781779709, 0.056, 0.02349585151852651},
       {0.09588749868436441, 0.18865093898455243, 0.056469917030370534, -0.2510059417029993},
       {0.09966051746405546, -0.007230027226275915, 0.05144979819631055, 0.058940488981630124},
       {0.09951591691952995, 0.18711792449209894, 0.052628607975943154, -0.21707611436266538}}};
  const std::array<double, 4> forces{10.0, 10.0, -10.0, 10.0};
  for (size_t i = 0; i < 4; ++i) {
    state = cart_pole_step(state, forces[i]);
    for (size_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(state[j], expected[i][j], 1e-12) << i;
    }
  }
}

TEST(CartPole, EndsWhenThePoleFalls) {
  const auto group = open("native_cartpole");
  GroupSteps now = step(*group, {0}, true);
  for (const float value : floats(now.observations.at("vector"))) {
    EXPECT_LE(std::abs(value), 0.05F);
  }
  int steps = 0;
  while (now.is_last[0] == 0) {
    now = step(*group, {1});
    EXPECT_EQ(now.reward[0], 1.0F);
    ++steps;
  }
  // A constant push tips the pole over within ten steps.
  EXPECT_LT(steps, 15);
  EXPECT_EQ(now.is_terminal[0], 1);
  EXPECT_GT(std::abs(floats(now.observations.at("vector"))[2]), 0.209F);
}

TEST(CartPole, ATimeLimitIsNotTerminal) {
  for (const auto& [settings, limit] :
       std::map<std::string, int>{{"", 200}, {R"({"limit": 30})", 30}}) {
    const auto group = open("native_cartpole", settings);
    GroupSteps now = step(*group, {0}, true);
    int steps = 0;
    while (now.is_last[0] == 0) {
      // Pushes towards where the pole leans and turns keep it upright.
      const std::vector<float> v = floats(now.observations.at("vector"));
      now = step(*group, {v[2] + 0.3F * v[3] + 0.05F * v[0] + 0.1F * v[1] > 0.0F ? 1 : 0});
      ++steps;
    }
    EXPECT_EQ(steps, limit);
    EXPECT_EQ(now.is_terminal[0], 0);
    EXPECT_EQ(step(*group, {0}).is_first[0], 1);
  }
}

// The states and rewards of gymnasium 1.4's Pendulum-v1 from this state.
TEST(Pendulum, MovesAsInGymnasium) {
  PendulumState state{3.0, -7.9};
  const std::array<double, 4> torques{1.5, -3.0, 0.7, 2.5};
  const std::array<std::array<double, 3>, 4> expected{
      {{2.621542000302245, -7.5691599939551, -15.24325},
       {2.2467186541707673, -7.496466922629553, -12.605700760757733},
       {1.9064001927608993, -6.806369228197358, -10.6679363432068},
       {1.6164896665363118, -5.7982105244917514, -8.271027902013984}}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(pendulum_reward(state, torques[i]), expected[i][2], 1e-12) << i;
    state = pendulum_step(state, torques[i]);
    EXPECT_NEAR(state.angle, expected[i][0], 1e-12) << i;
    EXPECT_NEAR(state.turn, expected[i][1], 1e-12) << i;
  }
}

TEST(Pendulum, TakesNormalisedTorques) {
  const auto group = open("native_pendulum");
  EXPECT_EQ(group->actions().at("action"), (Space{DType::F32, {1}, -1.0, 1.0}));
  const std::vector<float> before = floats(push(*group, {0}, true).observations.at("vector"));
  // 7 is clipped to 1, which is a torque of 2.
  const GroupSteps now = push(*group, {7});
  const PendulumState state{std::atan2(before[1], before[0]), before[2]};
  EXPECT_NEAR(now.reward[0], pendulum_reward(state, 2.0), 1e-5);
  // Observations and the angle made from them are rounded to float32: 8 of 2^-24, twice.
  EXPECT_NEAR(floats(now.observations.at("vector"))[2], pendulum_step(state, 2.0).turn, 2e-6);
}

TEST(Pendulum, EndsAtItsLimitOnly) {
  const auto group = open("native_pendulum");
  for (int i = 0; i <= 200; ++i) {
    const GroupSteps now = push(*group, {0.3F});
    EXPECT_EQ(now.is_last[0], i == 200 ? 1 : 0);
    EXPECT_EQ(now.is_terminal[0], 0);
  }
}

/// What a person sees in the pixels of native_grid.
struct GridView {
  using Cell = std::pair<int, int>;
  std::set<Cell> walls;
  std::map<std::string, Cell> things;

  explicit GridView(const HostArray& image) {
    const int columns = static_cast<int>(image.shape.dims[1]);
    const std::vector<int> pixels = bytes(image);
    const std::map<std::vector<int>, std::string> names{
        {{255, 255, 255}, "agent"}, {{255, 64, 64}, "red key"}, {{64, 64, 255}, "blue key"},
        {{192, 0, 0}, "red door"},  {{0, 0, 192}, "blue door"},
    };
    for (int i = 0; i < static_cast<int>(pixels.size()) / 3; ++i) {
      const std::vector<int> color(pixels.begin() + 3 * i, pixels.begin() + 3 * i + 3);
      const Cell at{i / columns, i % columns};
      if (color == std::vector<int>{96, 96, 96}) {
        walls.insert(at);
      } else if (const auto name = names.find(color); name != names.end()) {
        things[name->second] = at;
      }
    }
  }

  /// The first action of a shortest way, by breadth-first search from the goal.
  int way_to(Cell goal) const {
    constexpr std::array<Cell, 4> kMoves{{{-1, 0}, {1, 0}, {0, -1}, {0, 1}}};
    std::map<Cell, int> distance{{goal, 0}};
    std::deque<Cell> open{goal};
    while (!open.empty()) {
      const Cell at = open.front();
      open.pop_front();
      for (const auto& [dy, dx] : kMoves) {
        const Cell next{at.first + dy, at.second + dx};
        const bool is_door = next == things.at("red door") || next == things.at("blue door");
        const bool is_outside = next.second > things.at("red door").second;
        if (!walls.contains(next) && !is_door && !is_outside && !distance.contains(next)) {
          distance[next] = distance[at] + 1;
          open.push_back(next);
        }
      }
    }
    const Cell from = things.at("agent");
    for (int i = 0; i < 4; ++i) {
      const Cell next{from.first + kMoves[static_cast<size_t>(i)].first,
                      from.second + kMoves[static_cast<size_t>(i)].second};
      if (distance.contains(next) && distance[next] == distance[from] - 1) {
        return i;
      }
    }
    return -1;
  }
};

TEST(KeyGrid, TheDoorOfTheKeysColorWins) {
  const auto group = open("native_grid");
  EXPECT_THAT(group->observations().at("image").shape, ElementsAre(8, 8, 3));
  std::set<std::string> colors;
  for (int episode = 0; episode < 60; ++episode) {
    GroupSteps now = step(*group, {0});
    const GridView first(now.observations.at("image"));
    const std::string color = first.things.contains("red key") ? "red" : "blue";
    colors.insert(color);
    float total = 0.0F;
    while (GridView(now.observations.at("image")).things.contains(color + " key")) {
      const GridView view(now.observations.at("image"));
      now = step(*group, {view.way_to(view.things.at(color + " key"))});
      total += now.reward[0];
    }
    EXPECT_EQ(total, 0.1F);
    const bool right = episode % 3 != 0;
    const std::string door = (right == (color == "red")) ? "red door" : "blue door";
    const auto goal = first.things.at(door);
    while (now.is_last[0] == 0) {
      now = step(*group, {GridView(now.observations.at("image")).way_to(goal)});
    }
    EXPECT_EQ(now.reward[0], right ? 1.0F : -1.0F);
    EXPECT_EQ(now.is_terminal[0], 1);
  }
  EXPECT_EQ(colors.size(), 2U);
}

TEST(KeyGrid, DoorsAreClosedWithoutTheKey) {
  const auto group = open("native_grid");
  GroupSteps now = step(*group, {0}, true);
  const GridView first(now.observations.at("image"));
  // Walls around the key, as the search sees it, so that it is not walked over.
  int steps = 0;
  while (now.is_last[0] == 0 && ++steps < 99) {
    GridView view(now.observations.at("image"));
    view.walls.insert(first.things.at(first.things.contains("red key") ? "red key" : "blue key"));
    now = step(*group, {std::max(0, view.way_to(first.things.at("red door")))});
    EXPECT_EQ(now.reward[0], 0.0F);
  }
  const GridView last(now.observations.at("image"));
  EXPECT_EQ(last.things.at("agent").second, 6) << "the agent did not get to the door";
  EXPECT_EQ(now.is_last[0], 0);
}

// Once the key is taken, nothing in the pixels says which color it had.
TEST(KeyGrid, ATakenKeyIsNotDrawn) {
  const auto group = open("native_grid", R"({"rows": 4, "columns": 5, "cell": 2})");
  EXPECT_THAT(group->observations().at("image").shape, ElementsAre(8, 10, 3));
  // Two cells in the left room: the agent's and the key's, so a step takes the key.
  for (int episode = 0; episode < 20; ++episode) {
    step(*group, {0}, true);
    GroupSteps now = step(*group, {0});
    if (now.reward[0] == 0.0F) {
      now = step(*group, {1});
    }
    ASSERT_EQ(now.reward[0], 0.1F);
    std::set<std::vector<int>> colors;
    const std::vector<int> pixels = bytes(now.observations.at("image"));
    for (size_t i = 0; i < pixels.size(); i += 3) {
      colors.insert({pixels[i], pixels[i + 1], pixels[i + 2]});
    }
    EXPECT_THAT(colors,
                ElementsAre(ElementsAre(0, 0, 0), ElementsAre(0, 0, 192), ElementsAre(96, 96, 96),
                            ElementsAre(192, 0, 0), ElementsAre(255, 255, 255)));
  }
}

TEST(Dummy, HasEveryKindOfSpace) {
  for (const char* task : {"dummy_disc", "dummy_cont"}) {
    const auto group = open(task);
    const Spaces& spaces = group->observations();
    EXPECT_TRUE(spaces.at("image").is_image());
    EXPECT_EQ(spaces.at("token").classes(), 256);
    EXPECT_EQ(spaces.at("int2d").classes(), 4);
    EXPECT_EQ(spaces.at("float2d").shape, (Dims{4, 5}));
    EXPECT_EQ(spaces.at("vector").shape, (Dims{7}));
    EXPECT_EQ(spaces.at("count").shape, Dims{});
    EXPECT_EQ(group->actions().at("action").is_discrete(), std::string(task) == "dummy_disc");
  }
}

TEST(Dummy, TakesAHundredSteps) {
  const auto group = open("dummy_disc", "", 2);
  for (int i = 0; i <= 100; ++i) {
    const GroupSteps now = step(*group, {0, 4});
    EXPECT_THAT(floats(now.observations.at("count")), Each(static_cast<float>(i)));
    EXPECT_THAT(now.is_terminal, Each(i == 100 ? 1 : 0));
    EXPECT_THAT(now.reward, Each(i == 0 ? 0.0F : 1.0F));
  }
}

TEST(NativeTasks, DependOnSeedIndexAndEpisodeAlone) {
  for (const std::string task : {"native_catch", "native_cartpole", "native_grid"}) {
    SCOPED_TRACE(task);
    const auto first = [&](uint64_t seed, int64_t index, int episode) {
      const auto group = open_group({.task = task, .count = 1, .first = index, .seed = seed});
      GroupSteps now;
      for (int i = 0; i <= episode; ++i) {
        now = step(*group, {0}, true);
      }
      return now.observations.begin()->second.bytes;
    };
    // The second environment of a group, and a group that begins with it.
    const auto pair = open(task, "", 2, 7);
    const HostArray both = step(*pair, {0, 0}, true).observations.begin()->second;
    const std::vector<std::byte> second(
        both.bytes.begin() + static_cast<std::ptrdiff_t>(both.bytes.size() / 2), both.bytes.end());
    EXPECT_EQ(second, first(7, 1, 0));
    EXPECT_EQ(first(7, 1, 5), first(7, 1, 5));
    // Catch has 25 beginnings: several of each, so that not all are equal by chance.
    std::set<std::vector<std::byte>> seeds;
    std::set<std::vector<std::byte>> indices;
    std::set<std::vector<std::byte>> episodes;
    for (int i = 0; i < 8; ++i) {
      seeds.insert(first(static_cast<uint64_t>(i), 0, 0));
      indices.insert(first(0, i, 0));
      episodes.insert(first(0, 0, i));
    }
    EXPECT_GT(seeds.size(), 4U);
    EXPECT_GT(indices.size(), 4U);
    EXPECT_GT(episodes.size(), 4U);
  }
}

TEST(NativeTasks, ActionsMayBeRepeated) {
  const auto once = open("dummy_disc");
  const auto group = open("dummy_disc", R"({"repeat": 7})");
  EXPECT_EQ(once->repeat(), 1);
  EXPECT_EQ(group->repeat(), 7);
  step(*group, {0}, true);
  GroupSteps now = step(*group, {0});
  EXPECT_EQ(now.reward[0], 7.0F);
  EXPECT_EQ(floats(now.observations.at("count"))[0], 7.0F);
  for (int i = 1; i < 14; ++i) {
    now = step(*group, {0});
  }
  EXPECT_EQ(now.reward[0], 7.0F);
  now = step(*group, {0});
  // 100 = 14 * 7 + 2: the episode ends within a repeat.
  EXPECT_EQ(now.reward[0], 2.0F);
  EXPECT_EQ(now.is_last[0], 1);
}

TEST(NativeTasks, UnknownNamesAndSettingsAreErrors) {
  EXPECT_THAT([] { open("native_cach"); },
              ThrowsMessage<Error>(HasSubstr("`native_cach`\n  do you mean `native_catch`?")));
  EXPECT_THAT(
      [] { open("native_catch", R"({"row": 5})"); },
      ThrowsMessage<Error>(HasSubstr("native_catch has no setting `row`\n  do you mean `rows`?")));
  EXPECT_THAT(
      [] { open("native_catch", R"({"rows": 1})"); },
      ThrowsMessage<Error>(HasSubstr("`rows` of native_catch is 1, expected a number from 2")));
  EXPECT_THAT([] { open("native_catch", "[]"); },
              ThrowsMessage<Error>(HasSubstr("expected a JSON object")));
  EXPECT_THAT([] { open("native_catch", "", 0); },
              ThrowsMessage<Error>(HasSubstr("a group of 0 environments")));
}

}  // namespace
}  // namespace kinema::environments
