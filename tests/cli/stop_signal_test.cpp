#include "kinema/cli/stop_signal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <initializer_list>
#include <thread>

namespace kinema::cli {
namespace {

/// The end of a process with a StopSignal that raises these signals, `apart` from each other: its
/// exit status (1 if a stop was requested, 2 for an immediate end), or 128 + n for signal n.
int status_after(std::initializer_list<int> signals, std::chrono::milliseconds apart = {}) {
  const pid_t child = fork();
  if (child == 0) {
    const StopSignal stop;
    for (const int signal : signals) {
      raise(signal);
      std::this_thread::sleep_for(apart);
    }
    _exit(StopSignal::second_signal() != 0 ? 2 : StopSignal::requested() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(StopSignal, TakesTheFirstOfEachKindAsARequest) {
  EXPECT_EQ(status_after({}), 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    EXPECT_EQ(status_after({signal}), 1) << signal;
  }
}

constexpr std::chrono::milliseconds kApart(600);

TEST(StopSignal, TakesALaterOneForTheWishToEndNow) {
  EXPECT_EQ(status_after({SIGINT, SIGINT}, kApart), 2);
  EXPECT_EQ(status_after({SIGTERM, SIGINT}, kApart), 2);
  EXPECT_EQ(status_after({SIGHUP, SIGTERM}, kApart), 2);
}

TEST(StopSignal, TakesOneAtOnceForTheSameWish) {
  EXPECT_EQ(status_after({SIGTERM, SIGTERM}), 1) << "GNU timeout sends two";
  EXPECT_EQ(status_after({SIGTERM, SIGTERM, SIGINT, SIGTERM}), 1);
}

TEST(StopSignal, TakesASecondKeyForTheWishToEndNow) {
  EXPECT_EQ(status_after({SIGINT, SIGINT}, std::chrono::milliseconds(100)), 2);
  EXPECT_EQ(status_after({SIGINT, SIGINT}), 1) << "timeout --signal=INT";
}

TEST(StopSignal, LetsTheThirdEndTheProcess) {
  EXPECT_EQ(status_after({SIGINT, SIGINT, SIGINT}, kApart), 128 + SIGINT);
}

TEST(StopSignal, TakesAnyNumberOfHangUpsForOne) {
  EXPECT_EQ(status_after({SIGHUP, SIGHUP, SIGHUP}, kApart), 1);
  EXPECT_EQ(status_after({SIGTERM, SIGHUP}), 1);
  EXPECT_EQ(status_after({SIGUSR1, SIGUSR1, SIGUSR1}, kApart), 1);
}

TEST(StopSignal, LeavesAHangUpAloneThatIsIgnored) {
  signal(SIGHUP, SIG_IGN);  // nohup
  EXPECT_EQ(status_after({SIGHUP}), 0);
  signal(SIGHUP, SIG_DFL);
}

TEST(StopSignal, PutsBackWhatWasThereBefore) {
  signal(SIGTERM, SIG_IGN);
  { const StopSignal stop; }
  EXPECT_EQ(signal(SIGTERM, SIG_DFL), SIG_IGN);
}

}  // namespace
}  // namespace kinema::cli
