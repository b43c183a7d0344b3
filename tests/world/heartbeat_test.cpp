// Run by mpirun, as three processes.
#include "kinema/world/heartbeat.h"

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

TEST(Heartbeat, ReportsProgressToProcess0) {
  World& world = test_world();
  Heartbeat heartbeat(world.engine(), kNames, {.interval = 0.05});
  heartbeat.begin(world.rank() + 10, "waiting for data", false);
  if (world.is_first()) {
    EXPECT_TRUE(soon([&] { return heartbeat.progress()[2].step == 12; }));
    EXPECT_TRUE(soon([&] { return heartbeat.progress()[1].doing == "waiting for data"; }));
  }
  world.communicator().barrier({.what = "the end of the test"});
  EXPECT_EQ(heartbeat.failure(), "");
}

TEST(Heartbeat, ReportsAnErrorAndItsProcessToAll) {
  World& world = test_world();
  Heartbeat heartbeat(world.engine(), kNames, {.interval = 0.05});
  world.communicator().barrier({.what = "the start of the test"});
  if (world.rank() == 1) {
    EXPECT_TRUE(heartbeat.fail("[data] clips is not a folder", 3));
  } else if (world.is_first()) {
    EXPECT_TRUE(soon([&] { return !heartbeat.failure().empty(); }));
    heartbeat.set_printed();
  }
  EXPECT_TRUE(soon([&] { return !heartbeat.failure().empty(); }));
  EXPECT_EQ(heartbeat.failure(), "[process 1 on b] [data] clips is not a folder");
  if (world.is_first()) {
    EXPECT_THAT(heartbeat.errors(0.1),
                ElementsAre("[process 1 on b] [data] clips is not a folder"));
  }
  world.communicator().barrier({.what = "the end of the test"});
}

TEST(Heartbeat, ReportsACommonErrorOnce) {
  World& world = test_world();
  Heartbeat heartbeat(world.engine(), kNames, {.interval = 0.05});
  if (world.is_first()) {
    EXPECT_TRUE(heartbeat.fail("[config] no such key", 3));
    EXPECT_TRUE(soon(
        [&] { return heartbeat.errors(0.1) == std::vector<std::string>{"[config] no such key"}; }));
    heartbeat.set_printed();
  } else {
    EXPECT_TRUE(heartbeat.fail("[config] no such key", 3));
  }
  world.communicator().barrier({.what = "the end of the test"});
}

TEST(Heartbeat, NamesALostProcess) {
  World& world = test_world();
  world.communicator().barrier({.what = "the start of the test"});
  {
    std::unique_ptr<Heartbeat> heartbeat = std::make_unique<Heartbeat>(
        world.engine(), kNames, HeartbeatOptions{.interval = 0.05, .timeout = 0.5});
    heartbeat->begin(7, "in the step", false);
    sleep(0.3);
    if (world.rank() == 2) {
      heartbeat.reset();  // simulates death
    } else {
      EXPECT_TRUE(soon([&] { return !heartbeat->failure().empty(); }));
      EXPECT_THAT(heartbeat->failure(),
                  AllOf(HasSubstr("process 2 on c has sent no heartbeat"),
                        HasSubstr("its last report was of step 7, in the step")));
    }
    world.communicator().barrier({.what = "the end of the test"});
  }
}

TEST(Heartbeat, SendsOftenEnoughForAShortTimeout) {
  World& world = test_world();
  Heartbeat heartbeat(world.engine(), kNames, {});  // one heartbeat per second
  world.communicator().barrier({.what = "the start of the test"});
  heartbeat.set_timeout(1);
  sleep(2.5);
  EXPECT_EQ(heartbeat.failure(), "");
  world.communicator().barrier({.what = "the end of the test"});
}

TEST(Heartbeat, NamesAHangingProcess) {
  World& world = test_world();
  world.communicator().barrier({.what = "the start of the test"});
  Heartbeat heartbeat(world.engine(), kNames,
                      {.interval = 0.05, .timeout = 5, .hang_timeout = 0.5});
  for (int i = 0; i < (world.rank() == 1 ? 4 : 5); ++i) {
    heartbeat.begin(4, i == 3 ? "waiting for data" : "in the step", false);
  }
  EXPECT_TRUE(soon([&] { return !heartbeat.failure().empty(); }));
  EXPECT_THAT(heartbeat.failure(), AllOf(HasSubstr("process 1 on b hangs, without progress"),
                                         HasSubstr("step 4, waiting for data")));
  world.communicator().barrier({.what = "the end of the test"});
}

// A compile may take any time.
TEST(Heartbeat, ExcludesLongOperationsFromTheTimeout) {
  World& world = test_world();
  world.communicator().barrier({.what = "the start of the test"});
  Heartbeat heartbeat(world.engine(), kNames,
                      {.interval = 0.05, .timeout = 5, .hang_timeout = 0.2});
  heartbeat.begin(0, "compiling", true);
  if (world.rank() != 1) {
    heartbeat.begin(0, "waiting for the compile", true);
  }
  sleep(0.6);
  EXPECT_EQ(heartbeat.failure(), "");
  world.communicator().barrier({.what = "the end of the test"});
}

TEST(Heartbeat, DoesNotWaitForALostProcess0) {
  World& world = test_world();
  auto heartbeat = std::make_unique<Heartbeat>(world.engine(), kNames,
                                               HeartbeatOptions{.interval = 0.05, .timeout = 0.5});
  world.communicator().barrier({.what = "the start of the test"});
  if (world.is_first()) {
    heartbeat.reset();
  } else {
    EXPECT_TRUE(soon([&] { return !heartbeat->failure().empty(); }));
    EXPECT_THAT(heartbeat->failure(), HasSubstr("process 0 on a has sent no heartbeat"));
    const Stopwatch watch;
    EXPECT_FALSE(heartbeat->fail("[x] y", 60));
    EXPECT_LT(watch.seconds(), 20);
  }
  world.communicator().barrier({.what = "the end of the test"});
}

TEST(Heartbeat, ExcludesCompilationFromTheTimeout) {
  World& world = test_world();
  Heartbeat heartbeat(world.engine(), kNames,
                      {.interval = 0.05, .timeout = 5, .hang_timeout = 0.4});
  heartbeat.begin(3, "in the step", false);
  world.communicator().barrier({.what = "the start of the test"});
  if (world.rank() == 1) {
    {
      const std::shared_ptr<void> compiling = heartbeat.long_operation();
      sleep(1.2);
      EXPECT_EQ(heartbeat.failure(), "");
    }
    sleep(0.1);
    EXPECT_EQ(heartbeat.failure(), "");  // it has only just ended
  } else {
    heartbeat.begin(3, "writing a checkpoint", true);
  }
  EXPECT_TRUE(soon([&] { return !heartbeat.failure().empty(); }));  // now it is stuck
  EXPECT_THAT(heartbeat.failure(), HasSubstr("process 1 on b hangs, without progress"));
  world.communicator().barrier({.what = "the end of the test"});
}

TEST(Heartbeat, SendsLogLinesAndStepTimes) {
  World& world = test_world();
  Heartbeat heartbeat(world.engine(), kNames, {.interval = 0.05});
  std::mutex mutex;
  std::vector<std::string> shown;
  heartbeat.set_show([&](const std::string& line) {
    const std::lock_guard lock(mutex);
    shown.push_back(line);
  });
  heartbeat.notice("all say this");
  if (world.rank() != 0) {
    heartbeat.notice("others");
    heartbeat.notice(fmt::format("only {}", world.rank()));
  }
  heartbeat.finished(
      {.step = 7, .seconds = 2.0 + static_cast<double>(world.rank()), .waited = 0.5});
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
    EXPECT_EQ(heartbeat.progress()[2].last.step, 7);
    EXPECT_EQ(heartbeat.progress()[2].last.seconds, 4);
    EXPECT_EQ(heartbeat.progress()[0].last.waited, 0.5);
  }
  world.communicator().barrier({.what = "the end of a test"});
}

}  // namespace
}  // namespace kinema::world
