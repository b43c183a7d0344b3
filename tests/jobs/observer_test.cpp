// The callbacks of a job are called one at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "kinema/job/job.h"

namespace kinema::jobs_test {
namespace {

TEST(Observer, IsCalledByOneThreadAtATime) {
  std::atomic<int> inside = 0;
  int calls = 0;
  int most = 0;
  const auto called = [&] {
    most = std::max(most, ++inside);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    ++calls;
    --inside;
  };
  struct Stepped : Observer {
    std::function<void(int step)> on_step;
  };
  Stepped observer;
  observer.on_notice = [&](const std::string&) { called(); };
  observer.on_line = [&](const std::string&) { called(); };
  observer.on_step = [&](int) { called(); };
  observer.on_task = [&](const std::string&, int64_t) {
    called();
    return std::unique_ptr<Task>();
  };
  const Job job(observer, {});
  constexpr int kThreads = 4;
  constexpr int kRounds = 100;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, copy = job] {
      for (int k = 0; k < kRounds; ++k) {
        copy.notice("notice");
        job.line("line");
        job.tell(observer.on_step, k);
        copy.task("task");
      }
    });
  }
  threads.clear();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(calls, 4 * kThreads * kRounds);
}

TEST(Observer, MayCallTheJobFromACallback) {
  std::vector<std::string> said;
  Observer observer;
  const Job* job = nullptr;
  observer.on_line = [&](const std::string& line) { said.push_back(line); };
  observer.on_notice = [&](const std::string& line) {
    job->line("in " + line);
    said.push_back(line);
  };
  const Job made(observer, {});
  job = &made;
  made.notice("notice");
  EXPECT_THAT(said, ::testing::ElementsAre("in notice", "notice"));
}

}  // namespace
}  // namespace kinema::jobs_test
