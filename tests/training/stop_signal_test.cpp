#include "kinema/training/stop_signal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

namespace kinema::training {
namespace {

/// How a process ends that raises these signals while it has a StopSignal: its exit status (1 when
/// a stop was asked for), or 128 + n for signal n.
int status_after(std::initializer_list<int> signals) {
  const pid_t child = fork();
  if (child == 0) {
    const StopSignal stop;
    for (const int signal : signals) {
      raise(signal);
    }
    _exit(StopSignal::requested() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(StopSignal, TakesTheFirstOfEachKindAsARequest) {
  EXPECT_EQ(status_after({}), 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EQ(status_after({signal}), 1) << signal;
  }
}

TEST(StopSignal, LetsTheSecondEndTheProcess) {
  EXPECT_EQ(status_after({SIGINT, SIGINT}), 128 + SIGINT);
  EXPECT_EQ(status_after({SIGTERM, SIGINT}), 128 + SIGINT);
  EXPECT_EQ(status_after({SIGHUP, SIGTERM}), 128 + SIGTERM);
}

TEST(StopSignal, TakesAnyNumberOfHangUpsForOne) {
  EXPECT_EQ(status_after({SIGHUP, SIGHUP, SIGHUP}), 1);
  EXPECT_EQ(status_after({SIGTERM, SIGHUP}), 1);
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
}  // namespace kinema::training
