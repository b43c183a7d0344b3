// Environments in Python that a test writes, stepped by envs.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <sstream>
#include <thread>

#include "environments/python_environments.h"
#include "environments/steps.h"
#include "kinema/environments/group.h"

namespace kinema::environments {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

// The observations are the action and what identifies the environment.
constexpr const char* kCounting = R"py(
import numpy as np

class Counting:
    observations = {"seen": ("float64", (4,)), "image": ("uint8", (2, 3, 1), 0, 256), "count": ("int64", (), 0, 100)}
    actions = {"choice": ("int64", (), 2, 6), "torque": ("float64", (2,), [-2, 0], [6, float("inf")])}
    log = ["log/squares"]

    def __init__(self, index, seed, length):
        self.index, self.seed, self.length = index, seed % 1000, length

    def reset(self):
        self.count = 0
        return self.look([0, 0], 0)

    def look(self, torque, choice):
        return {"seen": [*torque, choice, self.index], "image": np.full((2, 3, 1), 250 + self.index, np.uint8),
                "count": self.count, "log/squares": self.count ** 2}

    def step(self, action):
        self.count += 1
        done = self.count == self.length
        torque = action["torque"]
        assert torque.dtype == np.float64 and action["choice"].dtype == np.int64
        return self.look(torque, action["choice"]), self.seed, done and self.index % 2 == 0, done

def make(index, seed, length=3):
    return Counting(index, seed, length)
)py";

Arrays counting_actions(int64_t count, int32_t choice, float torque) {
  const std::vector<int32_t> choices(static_cast<size_t>(count), choice);
  const std::vector<float> torques(static_cast<size_t>(2 * count), torque);
  return {{"choice", HostArray::from<int32_t>(DType::S32, {count}, choices)},
          {"torque", HostArray::f32({count, 2}, torques)}};
}

GroupSteps counted(Group& group, int32_t choice, float torque, bool reset = false) {
  group.begin(counting_actions(group.size(), choice, torque),
              std::vector<uint8_t>(static_cast<size_t>(group.size()), reset ? 1 : 0));
  return group.end();
}

TEST(PythonGroup, StepsAnEnvironmentOfTheUser) {
  const OwnModule module(kCounting);
  for (const int processes : {1, 3}) {
    SCOPED_TRACE(processes);
    const auto group = open_group({.task = "own:make",
                                   .count = 5,
                                   .first = 1,
                                   .seed = 3,
                                   .settings = fmt::format(R"({{"processes": {}}})", processes)});
    EXPECT_EQ(group->size(), 5);
    EXPECT_EQ(group->observations().at("seen"), (Space{DType::F32, {4}}));
    EXPECT_EQ(group->observations().at("image"), (Space{DType::U8, {2, 3, 1}, 0, 256}));
    EXPECT_EQ(group->observations().at("count"), (Space{DType::S32, {}, 0, 100}));
    EXPECT_EQ(group->actions().at("choice"), (Space{DType::S32, {}, 0, 4}));
    EXPECT_EQ(group->actions().at("torque"), (Space{DType::F32, {2}, -1, 1}));

    GroupSteps now = counted(*group, 3, 0.5F, true);
    EXPECT_THAT(now.is_first, Each(1));
    EXPECT_THAT(now.reward, Each(0.0F));
    now = counted(*group, 3, 0.5F);
    EXPECT_THAT(now.is_first, Each(0));
    // 0.5 of [-2, 6] is 4; the other torque has no upper limit, so it stays. Choice 3 is the fourth
    // from 2.
    const std::vector<float> seen = floats(now.observations.at("seen"));
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_THAT(std::vector<float>(seen.begin() + 4 * static_cast<std::ptrdiff_t>(i),
                                     seen.begin() + 4 * static_cast<std::ptrdiff_t>(i) + 4),
                  ElementsAre(4.0F, 0.5F, 5.0F, static_cast<float>(i + 1)));
      EXPECT_EQ(bytes(now.observations.at("image"))[6 * i], 251 + static_cast<int>(i));
    }
    EXPECT_THAT(now.observations.at("count").as<int32_t>(), Each(1));
    EXPECT_THAT(floats(now.log.at("squares")), Each(1.0F));
    EXPECT_THAT(floats(now.log.at("restarts")), Each(0.0F));
    EXPECT_NE(now.reward[0], now.reward[1]) << "both have one seed";

    counted(*group, 0, 7.0F);
    now = counted(*group, 0, 7.0F);
    EXPECT_EQ(floats(now.observations.at("seen"))[0], 6.0F) << "7 is clipped to 1";
    EXPECT_THAT(now.is_last, Each(1));
    EXPECT_THAT(now.is_terminal, ElementsAre(0, 1, 0, 1, 0));
    EXPECT_THAT(counted(*group, 0, 0.0F).is_first, Each(1));
  }
}

TEST(PythonGroup, RewardsDependOnSeedAndIndexAlone) {
  const OwnModule module(kCounting);
  const auto rewards = [](uint64_t seed, int64_t first, int64_t count, int processes) {
    const auto group = open_group({.task = "own:make",
                                   .count = count,
                                   .first = first,
                                   .seed = seed,
                                   .settings = fmt::format(R"({{"processes": {}}})", processes)});
    counted(*group, 0, 0.0F, true);
    return counted(*group, 0, 0.0F).reward;
  };
  const std::vector<float> all = rewards(1, 0, 3, 1);
  EXPECT_EQ(all, rewards(1, 0, 3, 2));
  EXPECT_EQ(all[2], rewards(1, 2, 1, 1)[0]);
  EXPECT_NE(all, rewards(2, 0, 3, 1));
}

TEST(PythonGroup, LimitsAndRepeatsSteps) {
  const OwnModule module(kCounting);
  const auto group =
      open_group({.task = "own:make", .settings = R"({"length": 9, "repeat": 2, "limit": 3})"});
  EXPECT_EQ(group->repeat(), 2);
  counted(*group, 0, 0.0F, true);
  for (int i = 1; i <= 3; ++i) {
    const GroupSteps now = counted(*group, 0, 0.0F);
    EXPECT_EQ(now.observations.at("count").as<int32_t>()[0], 2 * i);
    EXPECT_EQ(now.is_last[0], i == 3 ? 1 : 0);
    EXPECT_EQ(now.is_terminal[0], 0);
  }
  EXPECT_EQ(counted(*group, 0, 0.0F).is_first[0], 1);
}

TEST(PythonGroup, CannotBeRestored) {
  const OwnModule module(kCounting);
  const auto group = open_group({.task = "own:make"});
  EXPECT_FALSE(group->state().has_value());
  EXPECT_THAT([&] { group->restore("[]"); }, ThrowsMessage<Error>(HasSubstr("cannot be restored")));
}

// Spaces and environments as those of gymnasium and dm_env, without these packages.
constexpr const char* kOthers = R"py(
import types
import numpy as np

class Discrete:
    shape, dtype = (), np.int64
    def __init__(self, n, start=0): self.n, self.start = n, start
class Box:
    def __init__(self, low, high, shape, dtype):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.low, self.high = np.full(shape, low, dtype), np.full(shape, high, dtype)
class MultiDiscrete:
    dtype = np.dtype("int64")
    def __init__(self, nvec): self.nvec, self.shape = np.array(nvec), (len(nvec),)
class MultiBinary:
    dtype = np.dtype("int8")
    def __init__(self, n): self.n, self.shape = n, (n,)
class Dict:
    def __init__(self, **spaces): self.spaces = spaces
class MissionSpace:
    shape, dtype = (), str

class Nested:
    observation_space = Dict(grey=Box(0, 255, (2, 2), "uint8"), inner=Dict(a=Discrete(3, 5), b=Box(-1, 1, (2,), "float32")),
                             text=MissionSpace(), wide=Box(-2**62, 2**62, (1,), "int64"))
    action_space = Dict(move=MultiDiscrete([2, 3]), push=Dict(buttons=MultiBinary(2)), turn=Discrete(4, -1))
    def reset(self, seed=None):
        self.rng = np.random.default_rng(seed)
        return self.look(0.0), {}
    def look(self, b):
        return {"grey": np.eye(2, dtype=np.uint8), "inner": {"a": np.int64(7), "b": np.array([b, 1], np.float32)},
                "text": "go", "wide": np.array([2**40])}
    def step(self, action):
        assert isinstance(action["turn"], int), action
        total = 100 * action["turn"] + 10 * action["move"][1] + action["push"]["buttons"][1] + action["move"][0] / 2
        return self.look(0.25), total, False, False, {}

class Vector:
    observation_space = Box(-np.inf, np.inf, (3,), "float64")
    action_space = Discrete(2)
    def reset(self, seed=None): return np.zeros(3), {}
    def step(self, action): return np.full(3, action), 1, True, False, {}

class Spec:
    def __init__(self, shape, dtype, **limits):
        self.shape, self.dtype = shape, dtype
        self.__dict__.update(limits)
class Walker:
    def observation_spec(self): return {"a/b": Spec((2,), np.float64), "empty": Spec((0,), np.float64)}
    def action_spec(self): return Spec((2,), np.float64, minimum=-1.0, maximum=[1.0, 3.0])
    def now(self, kind, reward, discount):
        return types.SimpleNamespace(first=lambda: kind == 0, last=lambda: kind == 2, reward=reward, discount=discount,
                                     observation={"a/b": np.array([self.t, 0.5]), "empty": np.zeros(0)})
    def reset(self):
        self.t = 0
        return self.now(0, None, None)
    def step(self, action):
        self.t += 1
        return self.now(2 if self.t == 2 else 1, action[1], 1.0)
    def close(self): pass

class Original:
    obs_space = {k: types.SimpleNamespace(dtype=np.dtype(t), shape=(), low=low, high=high) for k, t, low, high in (
        ("x", "float32", -np.inf, np.inf), ("reward", "float32", -np.inf, np.inf), ("is_first", "bool", 0, 2),
        ("is_last", "bool", 0, 2), ("is_terminal", "bool", 0, 2), ("log/y", "float32", -np.inf, np.inf))}
    act_space = {"action": types.SimpleNamespace(dtype=np.dtype("int32"), shape=(), low=0, high=5),
                 "reset": types.SimpleNamespace(dtype=np.dtype(bool), shape=(), low=0, high=2)}
    def step(self, action):
        first = bool(action["reset"])
        return dict(x=np.float32(action["action"]), reward=np.float32(not first), is_first=first, is_last=not first,
                    is_terminal=not first, **{"log/y": np.float32(3)})
)py";

Arrays single(const std::string& name, int32_t value) {
  return {{name, HostArray::from<int32_t>(DType::S32, {1}, std::vector<int32_t>{value})}};
}

GroupSteps one_step(Group& group, const Arrays& actions, bool reset = false) {
  group.begin(actions, std::vector<uint8_t>{static_cast<uint8_t>(reset ? 1 : 0)});
  return group.end();
}

TEST(PythonGroup, TakesNestedSpacesOfGymnasium) {
  const OwnModule module(kOthers);
  const auto group = open_group({.task = "own:Nested"});
  const Spaces& spaces = group->observations();
  EXPECT_EQ(spaces.size(), 4U) << "text is left out";
  EXPECT_EQ(spaces.at("grey"), (Space{DType::U8, {2, 2, 1}, 0, 256}));
  EXPECT_EQ(spaces.at("inner/a"), (Space{DType::S32, {}, 0, 3}));
  EXPECT_EQ(spaces.at("inner/b"), (Space{DType::F32, {2}, -1, 1}));
  EXPECT_EQ(spaces.at("wide"), (Space{DType::F32, {1}}));
  EXPECT_EQ(group->actions().at("turn"), (Space{DType::S32, {}, 0, 4}));
  EXPECT_EQ(group->actions().at("move_0").classes(), 2);
  EXPECT_EQ(group->actions().at("move_1").classes(), 3);
  EXPECT_EQ(group->actions().at("push/buttons"), (Space{DType::S32, {2}, 0, 2}));

  Arrays actions = single("turn", 3);
  actions.merge(single("move_0", 1));
  actions.merge(single("move_1", 2));
  actions["push/buttons"] =
      HostArray::from<int32_t>(DType::S32, {1, 2}, std::vector<int32_t>{0, 1});
  one_step(*group, actions, true);
  const GroupSteps now = one_step(*group, actions);
  EXPECT_EQ(now.reward[0], 221.5F);
  EXPECT_EQ(now.observations.at("inner/a").as<int32_t>()[0], 2);
  EXPECT_THAT(floats(now.observations.at("inner/b")), ElementsAre(0.25F, 1.0F));
  EXPECT_THAT(bytes(now.observations.at("grey")), ElementsAre(1, 0, 0, 1));
  EXPECT_EQ(floats(now.observations.at("wide"))[0], 0x1p40F);
}

TEST(PythonGroup, NamesSingleSpacesOfGymnasium) {
  const OwnModule module(kOthers);
  const auto group = open_group({.task = "own:Vector"});
  EXPECT_EQ(group->observations().at("vector"), (Space{DType::F32, {3}}));
  step(*group, {0}, true);
  const GroupSteps now = step(*group, {1});
  EXPECT_THAT(floats(now.observations.at("vector")), Each(1.0F));
  EXPECT_EQ(now.is_terminal[0], 1);
}

TEST(PythonGroup, TakesEnvironmentsOfDmEnv) {
  const OwnModule module(kOthers);
  const auto group = open_group({.task = "own:Walker"});
  EXPECT_EQ(group->observations(), (Spaces{{"a_b", {DType::F32, {2}}}}));
  const Arrays actions{{"action", HostArray::f32({1, 2}, std::vector<float>{0.0F, 0.5F})}};
  EXPECT_EQ(one_step(*group, actions, true).is_first[0], 1);
  EXPECT_EQ(one_step(*group, actions).reward[0], 2.0F);  // 0.5 of [-1, 3]
  const GroupSteps now = one_step(*group, actions);
  EXPECT_EQ(now.is_last[0], 1);
  EXPECT_EQ(now.is_terminal[0], 0) << "discount 1";
  EXPECT_THAT(floats(now.observations.at("a_b")), ElementsAre(2.0F, 0.5F));
}

TEST(PythonGroup, TakesEnvironmentsOfTheOriginal) {
  const OwnModule module(kOthers);
  const auto group = open_group({.task = "own:Original"});
  EXPECT_EQ(group->observations().size(), 1U);
  EXPECT_EQ(group->actions().size(), 1U);
  EXPECT_EQ(step(*group, {4}, true).reward[0], 0.0F);
  const GroupSteps now = step(*group, {4});
  EXPECT_EQ(now.reward[0], 1.0F);
  EXPECT_EQ(now.is_terminal[0], 1);
  EXPECT_EQ(floats(now.observations.at("x"))[0], 4.0F);
  EXPECT_EQ(floats(now.log.at("y"))[0], 3.0F);
}

TEST(PythonGroup, PrintingDoesNotHoldUpAnEnvironment) {
  const OwnModule module(R"py(
import sys
class Loud:
    observations = {"x": ("float32", ())}
    actions = {"action": ("int32", (), 0, 2)}
    def reset(self): return {"x": 0.0}
    def step(self, action):
        print("a line of output " * 20000)
        sys.stderr.write("an end\n")
        return {"x": 1.0}, 0.0, False, False
)py");
  const auto group = open_group({.task = "own:Loud", .output = (module / "output.txt").string()});
  step(*group, {0}, true);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(step(*group, {0}).observations.at("x").as<float>()[0], 1.0F);
  }
  std::stringstream text;
  text << std::ifstream(module / "output.txt").rdbuf();
  EXPECT_GT(text.str().size(), 4U * 20000 * 17);
  EXPECT_THAT(text.str().substr(text.str().size() - 100), HasSubstr("a line of output"));
}

TEST(PythonGroup, ProcessesEndWithTheGroup) {
  const OwnModule module(R"py(
import os, subprocess
class Parent:
    observations = {"x": ("float32", (2,))}
    actions = {"action": ("int32", (), 0, 2)}
    def __init__(self): self.child = subprocess.Popen(["sleep", "1000"])
    def reset(self): return {"x": [os.getpid(), self.child.pid]}
    def step(self, action): return self.reset(), 0.0, False, False
)py");
  std::vector<float> processes;
  {
    const auto group = open_group({.task = "own:Parent"});
    processes = floats(step(*group, {0}, true).observations.at("x"));
  }
  for (const float process : processes) {
    const std::filesystem::path status = fmt::format("/proc/{}/stat", static_cast<int>(process));
    const auto is_running = [&] {
      std::ifstream in(status);
      std::string text;
      std::getline(in, text);
      return !text.empty() && text.find(") Z ") == std::string::npos;
    };
    for (int i = 0; i < 1000 && is_running(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_FALSE(is_running()) << status;
  }
}

}  // namespace
}  // namespace kinema::environments
