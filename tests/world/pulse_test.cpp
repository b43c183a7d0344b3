// Run by mpirun, as three processes.
#include "kinema/world/pulse.h"

#include <gmock/gmock.h>

#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "kinema/core/stopwatch.h"
#include "world/test_world.h"

namespace kinema::world {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> kNames{"process 0 on a", "process 1 on b", "process 2 on c"};

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// Waits for the effect of a heartbeat.
template <typename Condition>
bool soon(const Condition& condition) {
  for (int i = 0; i < 300 && !condition(); ++i) {
    sleep(0.01);
  }
  return condition();
}

TEST(Pulse, TellsProcessZeroWhereEachStands) {
  World& world = test_world();
  Pulse pulse(world.engine(), kNames, {.beat = 0.05});
  pulse.begin(world.rank() + 10, "waiting for data", false);
  if (world.is_first()) {
    EXPECT_TRUE(soon([&] { return pulse.progress()[2].step == 12; }));
    EXPECT_TRUE(soon([&] { return pulse.progress()[1].doing == "waiting for data"; }));
  }
  world.talk().barrier({.what = "the end of the test"});
  EXPECT_EQ(pulse.failure(), "");
}

TEST(Pulse, TellsAllOfAnErrorAndWhoseItIs) {
  World& world = test_world();
  Pulse pulse(world.engine(), kNames, {.beat = 0.05});
  world.talk().barrier({.what = "the start of the test"});
  if (world.rank() == 1) {
    EXPECT_TRUE(pulse.fail("[data] clips is no folder", 3));
  } else if (world.is_first()) {
    EXPECT_TRUE(soon([&] { return !pulse.failure().empty(); }));
    pulse.said();
  }
  EXPECT_TRUE(soon([&] { return !pulse.failure().empty(); }));
  EXPECT_EQ(pulse.failure(), "[process 1 on b] [data] clips is no folder");
  if (world.is_first()) {
    EXPECT_THAT(pulse.errors(0.1), ElementsAre("[process 1 on b] [data] clips is no folder"));
  }
  world.talk().barrier({.what = "the end of the test"});
}

TEST(Pulse, SaysOnceWhatAllRunInto) {
  World& world = test_world();
  Pulse pulse(world.engine(), kNames, {.beat = 0.05});
  if (world.is_first()) {
    EXPECT_TRUE(pulse.fail("[config] no such key", 3));
    EXPECT_TRUE(soon(
        [&] { return pulse.errors(0.1) == std::vector<std::string>{"[config] no such key"}; }));
    pulse.said();
  } else {
    EXPECT_TRUE(pulse.fail("[config] no such key", 3));
  }
  world.talk().barrier({.what = "the end of the test"});
}

TEST(Pulse, NamesAProcessThatIsNotHeardOf) {
  World& world = test_world();
  world.talk().barrier({.what = "the start of the test"});
  {
    std::unique_ptr<Pulse> pulse =
        std::make_unique<Pulse>(world.engine(), kNames, PulseOptions{.beat = 0.05, .silence = 0.5});
    pulse->begin(7, "in the step", false);
    sleep(0.3);
    if (world.rank() == 2) {
      pulse.reset();  // simulates death
    } else {
      EXPECT_TRUE(soon([&] { return !pulse->failure().empty(); }));
      EXPECT_THAT(pulse->failure(), AllOf(HasSubstr("process 2 on c has not been heard of"),
                                          HasSubstr("its last word was of step 7, in the step")));
    }
    world.talk().barrier({.what = "the end of the test"});
  }
}

TEST(Pulse, SpeaksOftenEnoughForAShortTimeout) {
  World& world = test_world();
  Pulse pulse(world.engine(), kNames, {});  // one heartbeat per second
  world.talk().barrier({.what = "the start of the test"});
  pulse.set_timeout(1);
  sleep(2.5);
  EXPECT_EQ(pulse.failure(), "");
  world.talk().barrier({.what = "the end of the test"});
}

TEST(Pulse, NamesAProcessThatLivesButStandsStill) {
  World& world = test_world();
  world.talk().barrier({.what = "the start of the test"});
  Pulse pulse(world.engine(), kNames, {.beat = 0.05, .silence = 5, .standstill = 0.5});
  for (int i = 0; i < (world.rank() == 1 ? 4 : 5); ++i) {
    pulse.begin(4, i == 3 ? "waiting for data" : "in the step", false);
  }
  EXPECT_TRUE(soon([&] { return !pulse.failure().empty(); }));
  EXPECT_THAT(pulse.failure(), AllOf(HasSubstr("process 1 on b lives, but has stood still"),
                                     HasSubstr("step 4, waiting for data")));
  world.talk().barrier({.what = "the end of the test"});
}

// A compile may take any time.
TEST(Pulse, DoesNotJudgeWhatIsAnnouncedAsLong) {
  World& world = test_world();
  world.talk().barrier({.what = "the start of the test"});
  Pulse pulse(world.engine(), kNames, {.beat = 0.05, .silence = 5, .standstill = 0.2});
  pulse.begin(0, "compiling", true);
  if (world.rank() != 1) {
    pulse.begin(0, "waiting for the compile", true);
  }
  sleep(0.6);
  EXPECT_EQ(pulse.failure(), "");
  world.talk().barrier({.what = "the end of the test"});
}

TEST(Pulse, WaitsForNoAnswerOfAFirstProcessThatIsLost) {
  World& world = test_world();
  auto pulse =
      std::make_unique<Pulse>(world.engine(), kNames, PulseOptions{.beat = 0.05, .silence = 0.5});
  world.talk().barrier({.what = "the start of the test"});
  if (world.is_first()) {
    pulse.reset();
  } else {
    EXPECT_TRUE(soon([&] { return !pulse->failure().empty(); }));
    EXPECT_THAT(pulse->failure(), HasSubstr("process 0 on a has not been heard of"));
    const Stopwatch watch;
    EXPECT_FALSE(pulse->fail("[x] y", 60));
    EXPECT_LT(watch.seconds(), 20);
  }
  world.talk().barrier({.what = "the end of the test"});
}

TEST(Pulse, DoesNotJudgeWhoCompilesInWhatIsShort) {
  World& world = test_world();
  Pulse pulse(world.engine(), kNames, {.beat = 0.05, .silence = 5, .standstill = 0.4});
  pulse.begin(3, "in the step", false);
  world.talk().barrier({.what = "the start of the test"});
  if (world.rank() == 1) {
    {
      const std::shared_ptr<void> compiling = pulse.at_length();
      sleep(1.2);
      EXPECT_EQ(pulse.failure(), "");
    }
    sleep(0.1);
    EXPECT_EQ(pulse.failure(), "");  // it has only just ended
  } else {
    pulse.begin(3, "writing a checkpoint", true);
  }
  EXPECT_TRUE(soon([&] { return !pulse.failure().empty(); }));  // now it is stuck
  EXPECT_THAT(pulse.failure(), HasSubstr("process 1 on b lives, but has stood still"));
  world.talk().barrier({.what = "the end of the test"});
}

TEST(Pulse, TellsNoticesAndStepTimes) {
  World& world = test_world();
  Pulse pulse(world.engine(), kNames, {.beat = 0.05});
  std::mutex mutex;
  std::vector<std::string> shown;
  pulse.set_show([&](const std::string& line) {
    const std::lock_guard lock(mutex);
    shown.push_back(line);
  });
  pulse.notice("all say this");
  if (world.rank() != 0) {
    pulse.notice("others");
    pulse.notice(fmt::format("only {}", world.rank()));
  }
  pulse.finished({.step = 7, .seconds = 2.0 + static_cast<double>(world.rank()), .waited = 0.5});
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return shown.size();
  };
  for (int i = 0; world.rank() == 0 && i < 1000 && count() < 3; ++i) {
    sleep(0.02);
  }
  if (world.rank() == 0) {
    const std::lock_guard lock(mutex);
    EXPECT_THAT(shown, testing::UnorderedElementsAre("[processes 1 and 2] others",
                                                     testing::EndsWith("] only 1"),
                                                     testing::EndsWith("] only 2")));
    EXPECT_EQ(pulse.progress()[2].last.step, 7);
    EXPECT_EQ(pulse.progress()[2].last.seconds, 4);
    EXPECT_EQ(pulse.progress()[0].last.waited, 0.5);
  }
  world.talk().barrier({.what = "the end of a test"});
}

}  // namespace
}  // namespace kinema::world
