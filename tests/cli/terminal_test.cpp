// Terminal output and key presses while commands run.
#include "cli/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "cli/run_kinema.h"

namespace kinema::cli_test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

/// The final characters on the terminal's lines, after all redraws.
std::string left_standing(const std::string& shown) {
  std::string out;
  std::string line;
  for (size_t i = 0; i < shown.size(); ++i) {
    if (shown.compare(i, 3, "\x1b[K") == 0) {
      i += 2;  // always at the end of the text that is drawn
    } else if (shown[i] == '\r') {
      if (i + 1 < shown.size() && shown[i + 1] != '\n') {
        line.clear();
      }
    } else {
      line += shown[i];
      if (shown[i] == '\n') {
        out += line;
        line.clear();
      }
    }
  }
  return out + line;
}

class OnTerminal : public KinemaOnCpu {
 protected:
  static constexpr const char* kLong = "max_train_steps=1000000";
  fs::path checkpoints() const { return folder_ / "out/tiny/checkpoints"; }
};

TEST_F(OnTerminal, ClearsTheBarAtTheEndOfARun) {
  Terminal terminal(folder_, {"train", "tiny.yml"});
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_THAT(terminal.shown(), AllOf(HasSubstr("training  ["), HasSubstr("  4/4")));
  const std::string left = left_standing(terminal.shown());
  EXPECT_THAT(left, AllOf(Not(HasSubstr("training  [")), Not(HasSubstr("left"))));
  EXPECT_THAT(left, HasSubstr("\ndone after 4 steps: out/tiny"));
}

// Terminals wrap a line that no longer fits: with 30 columns, the 79 characters of a bar are three
// rows, all of which must be cleared.
TEST_F(OnTerminal, RedrawsTheBarInANarrowerTerminal) {
  Terminal terminal(folder_, {"train", "tiny.yml", kLong});
  ASSERT_TRUE(terminal.shows("training  [")) << terminal.shown();
  const size_t wide = terminal.shown().size();
  terminal.resize(30);
  ASSERT_TRUE(terminal.shows("A\x1b[J")) << terminal.shown();
  const std::string after = terminal.shown().substr(wide);
  const size_t cleared = after.find("A\x1b[J");
  EXPECT_THAT(after.substr(cleared - 3, 7),
              AnyOf(HasSubstr("\x1b[1A\x1b[J"), HasSubstr("\x1b[2A\x1b[J")));
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST_F(OnTerminal, SaysHowLongTheStepIsBeingCompiled) {
  Terminal terminal(folder_, {"train", "tiny.yml", "executable_cache=off"});
  EXPECT_TRUE(terminal.shows("compiling the step ... ")) << terminal.shown();
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_THAT(left_standing(terminal.shown()), Not(HasSubstr("compiling the step ...")));
}

// So many layers outside a loop compile for seconds: the second key press is always in time.
TEST_F(OnTerminal, AnswersCtrlCWhileCompilingAtOnceAndEndsAtTheSecond) {
  Terminal terminal(
      folder_, {"train", "tiny.yml", "executable_cache=off", "num_layers=48", "scan_layers=false"});
  ASSERT_TRUE(terminal.shows("compiling the step ... ")) << terminal.shown();
  terminal.type("\x03");
  EXPECT_TRUE(terminal.shows("stopping after the compile; again to end now")) << terminal.shown();
  EXPECT_THAT(terminal.shown(), Not(HasSubstr("step compiled")));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // faster than any user types
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 128 + SIGINT);
}

TEST_F(OnTerminal, MakesNoStepWhenItWasStoppedWhileCompiling) {
  Terminal terminal(folder_, {"train", "tiny.yml", "executable_cache=off"});
  ASSERT_TRUE(terminal.shows("compiling the step ... ")) << terminal.shown();
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_THAT(terminal.shown(),
              AllOf(HasSubstr("stopped before the first step"), Not(HasSubstr("completed step"))));
}

TEST_F(OnTerminal, StopsAStepWithACheckpoint) {
  Terminal terminal(folder_, {"train", "tiny.yml", kLong});
  ASSERT_TRUE(terminal.shows("completed step: 1,")) << terminal.shown();
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_THAT(terminal.shown(), AllOf(HasSubstr("stopping after this step, with a checkpoint"),
                                      HasSubstr("stopped after ")));
  EXPECT_FALSE(fs::is_empty(checkpoints()));
}

// The kernel and the shell each send one, and later writes to the terminal fail.
TEST_F(OnTerminal, SavesWhenTheTerminalGoes) {
  Terminal terminal(folder_, {"train", "tiny.yml", kLong});
  ASSERT_TRUE(terminal.shows("completed step: 1,")) << terminal.shown();
  const pid_t process = terminal.process();
  terminal.hang_up();
  kill(process, SIGHUP);
  const int status = terminal.wait();
  EXPECT_LT(status, 128) << "ended by a signal";
  ASSERT_TRUE(fs::exists(checkpoints()));
  EXPECT_FALSE(fs::is_empty(checkpoints()));
}

TEST_F(OnTerminal, ShowsThatVerifyWorks) {
  const fs::path golden = fs::path(KINEMA_SOURCE_DIR) / "tests/golden";
  Terminal terminal(folder_, {"verify", golden.string(), "--filter", "sched"});
  EXPECT_EQ(terminal.wait(), 0) << terminal.shown();
  EXPECT_THAT(terminal.shown(), HasSubstr("verifying  ["));
}

TEST_F(OnTerminal, ShowsThatPlanWorks) {
  Terminal terminal(folder_, {"plan", "tiny.yml", "target=cpu:1"});
  EXPECT_TRUE(terminal.shows("compiling for cpu:1 ... ")) << terminal.shown();
  EXPECT_EQ(terminal.wait(), 0) << terminal.shown();
}

class WatchOnTerminal : public KinemaTest {};

TEST_F(WatchOnTerminal, WaitsForARunsFirstStepAndEndsWithQ) {
  fs::create_directories(folder_ / "run");
  Terminal terminal(folder_, {"watch", "run", "--every", "0.1"}, 40, 12);
  ASSERT_TRUE(terminal.shows("waiting for a run")) << terminal.shown();
  write("run/metrics.jsonl",
        "{\"step\": 0, \"learning/loss\": 0.5, \"perf/step_time_seconds\": 2.0}\n");
  ASSERT_TRUE(terminal.shows("stopped after 1 step")) << terminal.shown();
  terminal.type("q");
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_THAT(terminal.shown(), HasSubstr("\x1b[?25h")) << "the cursor is shown again";
}

}  // namespace
}  // namespace kinema::cli_test
