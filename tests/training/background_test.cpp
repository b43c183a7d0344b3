#include "kinema/training/background.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "kinema/core/error.h"

namespace kinema::training {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Background, WorksInParallelWithTheCaller) {
  std::promise<void> go_on;
  std::atomic<int> done = 0;
  Background background;
  background.start([&, wait = go_on.get_future().share()] {
    wait.wait();
    ++done;
    return std::string();
  });

  background.poll();
  EXPECT_EQ(done, 0);
  go_on.set_value();
  background.finish();
  EXPECT_EQ(done, 1);
  background.finish();  // nothing runs
}

TEST(Background, StartsWorkAfterThePreviousIsDone) {
  std::atomic<bool> running = false;
  std::atomic<int> overlaps = 0;
  Background background;
  for (int i = 0; i < 20; ++i) {
    background.start([&] {
      overlaps += running.exchange(true) ? 1 : 0;
      running = false;
      return std::string();
    });
  }
  background.finish();
  EXPECT_EQ(overlaps, 0);
}

TEST(Background, RethrowsAnExceptionOnce) {
  const auto fail_in = [](Background& background) {
    background.start([]() -> std::string { fail("[checkpoint] the disk is full"); });
  };
  Background background;
  fail_in(background);
  EXPECT_THAT([&] { background.finish(); }, ThrowsMessage<Error>(HasSubstr("disk is full")));
  background.poll();

  fail_in(background);
  EXPECT_THAT([&] { background.start([] { return std::string(); }); },
              ThrowsMessage<Error>(HasSubstr("disk is full")));

  fail_in(background);
  EXPECT_THAT(
      [&] {
        while (true) {
          background.poll();
        }
      },
      ThrowsMessage<Error>(HasSubstr("disk is full")));
}

TEST(Background, WaitsWhenItEnds) {
  std::atomic<bool> done = false;
  {
    Background background;
    background.start([&] {
      done = true;
      return std::string();
    });
  }
  EXPECT_TRUE(done);
}

TEST(Background, ReturnsTheResultOnce) {
  Background background;
  EXPECT_EQ(background.poll(), std::nullopt);
  background.start([] { return std::string("checkpoint of step 1 saved"); });
  EXPECT_EQ(background.finish(), "checkpoint of step 1 saved");
  EXPECT_EQ(background.finish(), std::nullopt);
  background.start([] { return std::string("checkpoint of step 2 saved"); });
  std::optional<std::string> line;
  while (!line) {
    line = background.poll();
  }
  EXPECT_EQ(line, "checkpoint of step 2 saved");
}

}  // namespace
}  // namespace kinema::training
