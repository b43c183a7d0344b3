#include "kinema/cli/run_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "io/scratch.h"

namespace kinema::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<metrics::MetricsRow> rows(int count) {
  std::vector<metrics::MetricsRow> out;
  for (int step = 0; step < count; ++step) {
    out.push_back({.step = step,
                   .loss = step % 2 == 0 ? 1.0 : 3.0,
                   .learning_rate = 1e-4,
                   .gradient_norm = 0.5,
                   .seconds = 2,
                   .tflops_per_second = 0.00025,
                   .epoch = 0.5,
                   .nonfinite = {}});
  }
  return out;
}

class RunScreenTest : public testing::Test {
 protected:
  reports::RunOverview screen(int steps, int64_t max_steps, bool is_running = true) {
    reports::RunFiles files(scratch_.path());
    files.max_steps = max_steps;
    return {.files = files, .rows = rows(steps), .is_running = is_running};
  }
  std::string text(const reports::RunOverview& screen, int columns = 80) {
    std::string out;
    for (const std::string& line : screen_lines(screen, {columns, 24}, false)) {
      out += line + "\n";
    }
    return out;
  }

  io::Scratch scratch_;
};

TEST_F(RunScreenTest, SaysHowFarARunIs) {
  EXPECT_THAT(text(screen(20, 50)),
              AllOf(HasSubstr("20 steps of 50, 1:00 left"), HasSubstr("250 MFLOP/s/device")));
  EXPECT_THAT(text(screen(1, 50)), HasSubstr("1 step of 50, 1:38 left"));
  EXPECT_THAT(text(screen(50, 50)),
              AllOf(HasSubstr("50 steps of 50, done"), Not(HasSubstr("left"))));
}

TEST_F(RunScreenTest, ShowsNoTimeLeftOfARunThatStopped) {
  EXPECT_THAT(text(screen(20, 50, /*is_running=*/false)),
              AllOf(HasSubstr("stopped after 20 steps of 50"), Not(HasSubstr("left"))));
  EXPECT_TRUE(screen(20, 50, false).json().at("stopped").as_bool());
  EXPECT_FALSE(screen(50, 50, false).json().at("stopped").as_bool()) << "the run is done";
}

TEST_F(RunScreenTest, SmoothsTheLosses) {
  // 1, 3, 1, 3, ...: means of 11 are between 1.9 and 2.1, single steps between 1 and 3.
  const std::string shown = text(screen(300, 0));
  EXPECT_THAT(shown, AllOf(HasSubstr("loss, mean of 11 steps"), HasSubstr("     2.0")));
  EXPECT_THAT(shown, Not(HasSubstr("         3 ")));
}

TEST_F(RunScreenTest, FitsIntoNarrowTerminals) {
  const auto characters = [](const std::string& line) {
    return std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; });
  };
  for (const int columns : {20, 40, 80}) {
    for (const std::string& line : screen_lines(screen(20, 50), {columns, 24}, true)) {
      EXPECT_LE(characters(line), columns) << line;
    }
  }
}

TEST(Flowed, PutsFieldsBesideEachOtherWhereThereIsRoom) {
  EXPECT_THAT(flowed({"loss 0.5", "", "0.1 s a step", "learning rate 1e-4"}, 24),
              ElementsAre("loss 0.5   0.1 s a step", "learning rate 1e-4"));
  EXPECT_THAT(flowed({"outputs/a_long_name_of_a_run/samples"}, 20),
              ElementsAre("..._of_a_run/samples"));
}

}  // namespace
}  // namespace kinema::cli
