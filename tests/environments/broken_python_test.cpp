// Environments in Python that crash, hang, or return what they must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "environments/python_environments.h"
#include "environments/steps.h"
#include "kinema/environments/group.h"

namespace kinema::environments {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Does `deed` in step `at` of each process, or in every step from there on.
constexpr const char* kBroken = R"py(
import os, signal, time
import numpy as np

class Broken:
    def __init__(self, index, deed, at, only):
        self.index, self.deed, self.at = index, deed if only < 0 or index == only else "", at
        self.steps = 0
        self.observations = {"x": ("float32", (2,)), "token": ("int32", (), 0, 5)}
        self.actions = {"action": ("int32", (), 0, 3)}
        if deed == "other spaces" and index == 1:
            self.observations["x"] = ("float32", (3,))
        if deed in ("changing spaces", "changing raise") and os.path.exists("crashed"):
            self.observations["x"] = ("float32", (3,))
        if deed == "changing actions" and os.path.exists("crashed"):
            self.actions["action"] = ("int32", (), 0, 4)
        if deed == "too many bytes":
            self.observations["x"] = ("float32", (100000, 100000))
        if deed == "bytes in all":
            for i in range(5):
                self.observations[f"y{i}"] = ("float32", (1 << 26,))
        if deed == "negative sizes":
            self.observations["x"] = ("float32", (-3,))
        if deed == "text":
            self.observations["x"] = ("U10", ())
        if deed == "reserved":
            self.observations["reward"] = ("float32", ())
        if deed == "raise at start":
            raise ValueError("no licence\nsecond line")
        if deed == "exit at start":
            os._exit(7)
        if deed == "hang at start":
            time.sleep(1000)

    def reset(self): return self.look()
    def look(self): return {"x": np.array([self.index, self.steps], np.float32), "token": 1}

    def step(self, action):
        self.steps += 1
        out, reward = self.look(), 1.0
        if self.steps >= self.at:
            deed = open("deed").read() if os.path.exists("deed") else self.deed
            if deed == "raise": raise ValueError(f"broken in step {self.steps}")
            if deed == "crash": os.kill(os.getpid(), signal.SIGSEGV)
            if deed in ("changing spaces", "changing actions"): open("crashed", "w"); os._exit(1)
            if deed == "changing raise": open("crashed", "w"); raise ValueError("once")
            if deed == "exit": print("the last words"); os._exit(5)
            if deed == "hang": time.sleep(1000)
            if deed == "nan": out["x"][1] = np.nan
            if deed == "nan reward": reward = np.nan
            if deed == "shape": out["x"] = np.zeros(3, np.float32)
            if deed == "list of lists": out["x"] = [[1, 2], [3]]
            if deed == "dtype": out["token"] = 1.5
            if deed == "range": out["token"] = 5
            if deed == "large": out["token"] = 1 << 40
            if deed == "missing": del out["x"]
            if deed == "nothing": return None
            if deed == "no reward": reward = None
        return out, reward, False, False

def make(index, seed, deed="", at=2, only=-1):
    return Broken(index, deed, at, only)
)py";

std::unique_ptr<Group> broken(const std::string& deed, const std::string& more = "",
                              int64_t count = 1, double seconds = 60.0) {
  return open_group(
      {.task = "own:make",
       .count = count,
       .settings = fmt::format(R"({{"deed": "{}", "restart_wait": 0{}}})", deed, more),
       .step_timeout_seconds = seconds});
}

/// The error of the first step that has one; empty after `most` steps without.
std::string error_of(Group& group, int most = 10) {
  try {
    for (int i = 0; i < most; ++i) {
      step(group, std::vector<int32_t>(static_cast<size_t>(group.size()), 1));
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Of an environment that cannot be opened.
std::string error_at_start(const std::string& deed, const std::string& more = "",
                           int64_t count = 1) {
  try {
    return error_of(*broken(deed, more, count), 2);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(BrokenPython, WhatDoesNotFitItsSpaceIsNamed) {
  const OwnModule module(kBroken);
  const auto group = broken("", R"(, "restart_window": 0, "restart_failures": 0, "at": 1)");
  const auto after = [&](const std::string& deed) {
    module.write("deed", deed);
    return error_of(*group);
  };
  EXPECT_EQ(after(""), "");
  const std::string begin = "[environments] own:make: ";
  EXPECT_THAT(after("nan"), HasSubstr(begin + "observation `x` of environment 0 is nan at element "
                                              "1"));
  EXPECT_THAT(after("nan reward"), HasSubstr(begin + "the reward of environment 0 is nan"));
  EXPECT_EQ(after("shape"),
            begin + "environment 0: the observation `x` has shape [3], expected [2]");
  EXPECT_THAT(after("dtype"), HasSubstr("`token` is float64, expected int32"));
  EXPECT_THAT(after("range"), HasSubstr("`token` has values from 5 to 5, expected integers from 0 "
                                        "to 4"));
  EXPECT_THAT(after("large"), HasSubstr("`token` has values from 1099511627776 to"));
  EXPECT_THAT(after("missing"), HasSubstr("the observation `x` is missing"));
  EXPECT_THAT(after("nothing"), HasSubstr("environment 0: TypeError: "));
  EXPECT_THAT(after("no reward"), HasSubstr("the reward of environment 0 is nan"));
  EXPECT_THAT(after("list of lists"), HasSubstr("environment 0: ValueError: "));
  EXPECT_EQ(after(""), "");
}

TEST(BrokenPython, SpacesThatCannotBeUsedAreNamed) {
  const OwnModule module(kBroken);
  EXPECT_THAT(error_at_start("too many bytes"),
              HasSubstr("`x` f32[100000,100000] of 1 environments has more than 1 GiB"));
  EXPECT_THAT(error_at_start("bytes in all"), HasSubstr("has more than 1 GiB, `y"));
  EXPECT_THAT(error_at_start("negative sizes"),
              HasSubstr("a space is float32[-3], expected numbers"));
  EXPECT_THAT(error_at_start("text"), HasSubstr("a space is <U10[], expected numbers"));
  EXPECT_THAT(error_at_start("reserved"), HasSubstr("an observation or action `reward`"));
  EXPECT_THAT(error_at_start("other spaces", R"(, "processes": 1)", 2),
              HasSubstr("the spaces of environment 1 differ"));
  EXPECT_THAT(error_at_start("other spaces", R"(, "processes": 2)", 2),
              HasSubstr("the space of `x` was f32[2] from -inf to inf, and is f32[3]"));
}

TEST(BrokenPython, AnExceptionStartsANewEpisodeTwice) {
  const OwnModule module(kBroken);
  const auto group = broken("raise", R"(, "only": 1, "processes": 1)", 3);
  step(*group, {0, 0, 0}, true);
  for (int failure = 1; failure <= 2; ++failure) {
    EXPECT_THAT(step(*group, {0, 0, 0}).is_first, ElementsAre(0, 0, 0));
    const GroupSteps now = step(*group, {0, 0, 0});
    EXPECT_THAT(now.is_first, ElementsAre(0, 1, 0));
    EXPECT_THAT(now.is_last, ElementsAre(0, 0, 0));
    EXPECT_THAT(now.reward, ElementsAre(1.0F, 0.0F, 1.0F));
    EXPECT_THAT(floats(now.log.at("restarts")), ElementsAre(0.0F, 1.0F, 0.0F));
  }
  const std::string error = error_of(*group);
  EXPECT_THAT(error,
              AllOf(HasSubstr("[environments] own:make: environment 1: ValueError: broken in "
                              "step 2 ("),
                    HasSubstr("own.py:"), HasSubstr("it failed 3 times within 300 s")));
}

TEST(BrokenPython, FailuresAreForgottenAfterTheirTime) {
  const OwnModule module(kBroken);
  EXPECT_EQ(error_of(*broken("raise", R"(, "restart_window": 0)"), 20), "");
  EXPECT_EQ(error_of(*broken("exit", R"(, "restart_window": 0, "at": 1)"), 4), "");
  EXPECT_THAT(error_of(*broken("raise", R"(, "restart_failures": 0)")),
              HasSubstr("it failed 1 times"));
}

TEST(BrokenPython, ACrashStartsNewEpisodesTwice) {
  const OwnModule module(kBroken);
  const auto group = broken("crash", R"(, "only": 1, "processes": 2)", 3);
  step(*group, {0, 0, 0}, true);
  for (int failure = 1; failure <= 2; ++failure) {
    EXPECT_THAT(step(*group, {0, 0, 0}).is_first, ElementsAre(0, 0, 0));
    // Environments 1 and 2 are in one process.
    const GroupSteps now = step(*group, {0, 0, 0});
    EXPECT_THAT(now.is_first, ElementsAre(0, 1, 1));
    EXPECT_THAT(floats(now.log.at("restarts")), ElementsAre(0.0F, 1.0F, 1.0F));
    EXPECT_THAT(floats(now.observations.at("x")),
                ElementsAre(0.0F, 2.0F * static_cast<float>(failure), 1.0F, 0.0F, 2.0F, 0.0F));
  }
  EXPECT_THAT(error_of(*group),
              AllOf(HasSubstr("the process of environments 1 to 2 failed 3 times within 300 s"),
                    HasSubstr("signal 11 (Segmentation fault)")));
}

TEST(BrokenPython, TheLastPrintedLineIsShown) {
  const OwnModule module(kBroken);
  EXPECT_THAT(error_of(*broken("exit", R"(, "restart_failures": 0)")),
              HasSubstr("it has ended (exit status 5): the last words"));
}

TEST(BrokenPython, OneThatHangsIsKilled) {
  const OwnModule module(kBroken);
  constexpr double kSeconds = 1.0;
  const auto once = broken("hang", R"(, "restart_failures": 0)", 1, kSeconds);
  EXPECT_THAT(error_of(*once), HasSubstr("it does not answer (killed)"));
  EXPECT_THAT([] { broken("hang at start", R"(, "start_timeout": 1)"); },
              ThrowsMessage<Error>(HasSubstr("own:make cannot be started: it does not answer")));
}

TEST(BrokenPython, SpacesMayNotChangeWithARestart) {
  const OwnModule module(kBroken);
  const auto after_restart = [&](const std::string& deed) {
    std::filesystem::remove(module / "crashed");
    return error_at_start(deed, R"(, "at": 1)");
  };
  EXPECT_THAT(after_restart("changing spaces"),
              HasSubstr("the space of `x` was f32[2] from -inf to inf, and is f32[3]"));
  EXPECT_THAT(after_restart("changing actions"),
              HasSubstr("the space of `action` was s32[] from 0 to 3, and is s32[] from 0 to 4"));
  EXPECT_THAT(after_restart("changing raise"), HasSubstr("the space of the observation `x` was"));
}

TEST(BrokenPython, AnEpisodeWithoutEndHasALimit) {
  const OwnModule module(kBroken);
  const auto group = broken("", R"(, "limit": 4)");
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(step(*group, {0}).is_last[0], i % 5 == 4 ? 1 : 0) << i;
  }
}

TEST(BrokenPython, ExceptionsOtherThanAStepsAreShownAtOnce) {
  const OwnModule module(kBroken);
  EXPECT_THAT(error_at_start("raise at start"),
              AllOf(HasSubstr("[environments] own:make: "), HasSubstr("second line"),
                    HasSubstr("own.py:")));
  EXPECT_THAT(error_at_start("exit at start"),
              HasSubstr("own:make cannot be started: it has ended (exit status 7)"));
  const auto opened = [](const std::string& task, const std::string& settings = "") {
    try {
      open_group({.task = task, .settings = settings});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(opened("absent_module:make"),
              HasSubstr("ModuleNotFoundError: No module named 'absent_module'"));
  EXPECT_THAT(opened("own:mak"), HasSubstr("AttributeError: "));
  EXPECT_THAT(opened("own:np"), HasSubstr("TypeError: "));
  EXPECT_THAT(opened("own:make", R"({"ded": 1})"),
              HasSubstr("does not accept the setting `ded`; it accepts: index, seed, deed, at"));
  EXPECT_THAT(opened("gymnasiun_CartPole-v1"), HasSubstr("`gymnasium_CartPole-v1`?"));
  EXPECT_THAT(opened("gymnasium_CartPole-v1"), HasSubstr("No module named 'gymnasium'"));
  EXPECT_THAT(opened("own:make", R"({"processes": 2})"),
              HasSubstr("`processes` of own:make is 2, expected a number from 0 to 1"));
}

TEST(BrokenPython, TheInterpreterIsNamed) {
  const OwnModule module(kBroken);
  EXPECT_THAT([] { open_group({.task = "own:make", .python = "no-such-python"}); },
              ThrowsMessage<Error>(HasSubstr("the Python interpreter `no-such-python` cannot be "
                                             "started: No such file or directory")));
  setenv("PYTHONPATH", "", 1);
  EXPECT_THAT([] { open_group({.task = "own:make", .python = "python3"}); },
              ThrowsMessage<Error>(AnyOf(HasSubstr("No module named 'numpy'"), HasSubstr("own"))));
}

/// What another program says instead of envs.py.
std::string error_of_server(const std::string& replies) {
  const OwnModule module("");
  module.write("server",
               "#!/usr/bin/env python3\nimport json, os, socket, sys, time\n"
               "s = socket.socket(fileno=int(sys.argv[4]))\n"
               "f = s.makefile('rwb', 0)\nf.readline()\n"
               "good = json.dumps({'observations': {'x': {'dtype': 'float32', 'shape': "
               "[], 'low': None, 'high': None}}, 'actions': {'action': {'dtype': 'int32', "
               "'shape': [], 'low': 0, 'high': 3}}, 'log': [], 'repeat': 1}) + '\\n'\n"
               "def say(text): f.write(text.encode())\n" +
                   replies + "\ntime.sleep(1000)\n");
  std::filesystem::permissions(module / "server", std::filesystem::perms::owner_all);
  try {
    const auto group = open_group({.task = "own:make",
                                   .settings = R"({"restart_failures": 0, "start_timeout": 20})",
                                   .python = (module / "server").string(),
                                   .step_timeout_seconds = 1.0});
    return error_of(*group);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(BrokenPython, RepliesOfAnotherProgramAreErrors) {
  EXPECT_THAT(error_of_server("say('a' * 3000000)"), HasSubstr("a line of more than 1 MiB"));
  EXPECT_THAT(error_of_server("say('{\\n')"), HasSubstr("the reply of envs.py for own:make"));
  EXPECT_THAT(error_of_server("say('[]\\n')"), HasSubstr("the reply of envs.py for own:make"));
  EXPECT_THAT(error_of_server("say(good.replace('float32', 'float16'))"),
              HasSubstr("`x` is float16, expected float32, uint8 or int32"));
  EXPECT_THAT(error_of_server("say(good.replace('[]', '[-1]', 1))"),
              HasSubstr("the sizes [-1] are negative"));
  EXPECT_THAT(error_of_server("say(good.replace('[]', '[4294967296, 4294967296]', 1))"),
              HasSubstr("too large"));
  EXPECT_THAT(error_of_server("say(good.replace('\"repeat\": 1', '\"repeat\": 0'))"),
              HasSubstr("repeats each action 0 times"));
  EXPECT_THAT(error_of_server("say(good + 'xx')"),
              HasSubstr("replied with the byte 120, expected `k` or `e`"));
  EXPECT_THAT(error_of_server("say(good + 'e{}\\n')"), HasSubstr("error"));
  EXPECT_THAT(error_of_server("say(good); f.readline(); s.recv(1); s.close(); sys.exit(3)"),
              HasSubstr("exit status 3"));
  EXPECT_THAT(error_of_server("say(good); f.readline(); os.ftruncate(int(sys.argv[6]), 0)"),
              HasSubstr("PermissionError"));
}

}  // namespace
}  // namespace kinema::environments
