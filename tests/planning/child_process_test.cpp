#include "kinema/planning/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "kinema/core/error.h"

namespace kinema::planning {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ChildProcess : public ::testing::Test {
 protected:
  ChildStatus shell(const std::string& script, int64_t memory_limit = 0) {
    return run_child({.executable = "/bin/sh",
                      .arguments = {"-c", script},
                      .log = log_,
                      .memory_limit = memory_limit});
  }
  std::string printed() const {
    std::ifstream in(log_);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  void TearDown() override { fs::remove(log_); }

  fs::path log_ = fs::path(::testing::TempDir()) /
                  (std::string("kinema_child_") +
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(ChildProcess, ReportsStatusAndOutput) {
  const ChildStatus status = shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_EQ(status.signal, 0);
  EXPECT_EQ(printed(), "out\nerr\n");
}

TEST_F(ChildProcess, ReportsASignal) {
  const ChildStatus status = shell("kill -ABRT $$");
  EXPECT_EQ(status.exit_code, -1);
  EXPECT_EQ(status.signal, 6);
}

TEST_F(ChildProcess, IsKilledAboveItsMemoryLimit) {
  // Even a shell needs more than a page.
  const ChildStatus status = shell("while :; do :; done", 4096);
  EXPECT_TRUE(status.too_large);
  EXPECT_EQ(status.signal, 9);
}

// The system then discards children's statuses, and both of these would seem to end with 0.
TEST_F(ChildProcess, CallsNothingASuccessWhereSigchldIsIgnored) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  for (const char* script : {"exit 3", "kill -SEGV $$"}) {
    EXPECT_THAT([&] { shell(script); }, ThrowsMessage<Error>(HasSubstr("SIGCHLD, SIG_DFL")));
  }
  std::signal(SIGCHLD, before);
  EXPECT_EQ(shell("exit 3").exit_code, 3);
}

// A program inherits ignored signals from its parent, and this one may have children.
TEST_F(ChildProcess, IgnoresNoSigchldItself) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_THROW(shell("sed -n 's/^SigIgn:\\t//p' /proc/$$/status"), Error);
  std::signal(SIGCHLD, before);
  const uint64_t ignored = std::stoull(printed(), nullptr, 16);
  EXPECT_EQ(ignored >> (SIGCHLD - 1) & 1U, 0U) << printed();
}

TEST_F(ChildProcess, FailsWhereThereIsNoProgram) {
  EXPECT_EQ(run_child({.executable = "/nowhere/at/all", .log = log_}).exit_code, 127);
}

}  // namespace
}  // namespace kinema::planning
