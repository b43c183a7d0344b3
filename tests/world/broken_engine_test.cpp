// The message transport fails: everyone who waits gets an error, and the process continues.
#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/world/communicator.h"
#include "kinema/world/heartbeat.h"

namespace kinema::world {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<std::string> kNames{"process 0 on a", "process 1 on b"};

/// Fails in the call `at`, once `fails` is set.
class BrokenEngine : public Engine {
 public:
  enum class At { SEND, RECEIVE, DONE };
  BrokenEngine(int64_t rank, At at) : rank_(rank), at_(at) {}

  std::atomic<bool> fails = true;

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return 2; }
  std::string name() const override { return "broken"; }
  int open_channel() override { return 0; }
  std::unique_ptr<Pending> send(int, Message, int64_t, int) override {
    break_at(At::SEND);
    return std::make_unique<Waiting>(*this);
  }
  std::unique_ptr<Pending> receive(int, size_t, int64_t, int) override {
    break_at(At::RECEIVE);
    return std::make_unique<Waiting>(*this);
  }
  void put(const std::string&, const std::string&) override {}
  std::optional<std::string> get(const std::string&) override { return std::nullopt; }

 private:
  struct Waiting : Pending {
    explicit Waiting(const BrokenEngine& engine) : engine_(engine) {}
    bool done() override {
      engine_.break_at(At::DONE);
      return false;
    }
    const BrokenEngine& engine_;
  };
  void break_at(At at) const { check(!fails || at != at_, "[world] the network is gone"); }

  int64_t rank_;
  At at_;
};

template <typename Condition>
bool soon(const Condition& condition) {
  for (const Stopwatch watch; !condition() && watch.seconds() < 20;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

TEST(BrokenEngine, IsTheFailureOfTheRun) {
  for (const BrokenEngine::At at :
       {BrokenEngine::At::SEND, BrokenEngine::At::RECEIVE, BrokenEngine::At::DONE}) {
    for (const int64_t rank : {0, 1}) {
      const auto engine = std::make_shared<BrokenEngine>(rank, at);
      Heartbeat heartbeat(engine, kNames, {});
      EXPECT_TRUE(soon([&] { return !heartbeat.failure().empty(); }));
      EXPECT_EQ(heartbeat.failure(), "[world] the network is gone");
      // Process 0 reports it; another process does if it cannot tell process 0.
      EXPECT_EQ(heartbeat.fail(heartbeat.failure(), 60), rank == 0);
      if (rank == 0) {
        EXPECT_THAT(heartbeat.errors(0), ElementsAre("[world] the network is gone"));
      }
      Communicator communicator(engine, [&] { return heartbeat.failure(); });
      EXPECT_THAT([&] { communicator.barrier({.what = "a test"}); },
                  ThrowsMessage<Error>(HasSubstr("the network is gone")));
    }
  }
}

// A process that is stuck in an uninterruptible call is ended.
TEST(BrokenEngine, EndsOverdueProcesses) {
  const auto engine = std::make_shared<BrokenEngine>(1, BrokenEngine::At::DONE);
  Heartbeat heartbeat(engine, kNames, {});
  heartbeat.set_timeout(0.2);
  std::atomic<bool> ended = false;
  heartbeat.set_overdue([&] { ended = true; });
  EXPECT_TRUE(soon([&] { return ended.load(); }));
}

TEST(BrokenEngine, AnErrorOfACallbackIsTheFailureToo) {
  const auto engine = std::make_shared<BrokenEngine>(0, BrokenEngine::At::DONE);
  engine->fails = false;
  {
    Heartbeat heartbeat(engine, kNames, {.interval = 0.05, .timeout = 0.1});
    heartbeat.set_timeout(0.2);
    std::atomic<bool> ended = false;
    heartbeat.set_overdue([&]() -> void {
      ended = true;
      throw std::runtime_error("the console is gone");
    });
    EXPECT_TRUE(soon([&] { return ended.load(); }));
    EXPECT_THAT(heartbeat.failure(), HasSubstr("process 1 on b has sent no heartbeat"));
  }
}

}  // namespace
}  // namespace kinema::world
