#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/scarce_threads.h"
#include "kinema/core/address_space.h"
#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/core/read_ahead.h"
#include "sanitizers.h"

/// Functions that split work over threads, when few or no threads can be made.
namespace kinema {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ForEachInParallel, DoesAllWithAsManyThreadsAsCanBeMade) {
  for (int threads = 0; threads < 5; ++threads) {
    const ScarceThreads scarce(threads);
    std::vector<std::atomic<int>> calls(100);
    for_each_in_parallel(calls.size(), 4, [&](size_t i) { ++calls[i]; });
    for (const std::atomic<int>& each : calls) {
      EXPECT_EQ(each, 1) << threads;
    }
  }
}

TEST(ForEachInParallel, ThrowsWhatACallThrewOnWhicheverThread) {
  for (const int threads : {0, 3}) {
    const ScarceThreads scarce(threads);
    EXPECT_THAT(
        [] { for_each_in_parallel(50, 4, [](size_t i) { check(i != 7, "[test] number {}", i); }); },
        ThrowsMessage<Error>(HasSubstr("number 7")));
  }
}

TEST(ForRangesInParallel, CoversEveryItemOnceAndThrowsWhatARangeThrew) {
  for (const int64_t count : {0, 1, 7, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
    for_ranges_in_parallel(count, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        ++calls[static_cast<size_t>(i)];
      }
    });
    for (const std::atomic<int>& each : calls) {
      EXPECT_EQ(each, 1);
    }
  }
  EXPECT_THROW(
      for_ranges_in_parallel(1000, 1, [](int64_t, int64_t last) { check(last < 1000, "[test]"); }),
      Error);
}

TEST(StartThread, HandsOverTheErrorThatWouldEndTheProcess) {
  std::string said;
  start_thread([] { fail("[test] in a thread"); },
               [&](const std::exception_ptr& error) {
                 try {
                   std::rethrow_exception(error);
                 } catch (const Error& caught) {
                   said = caught.what();
                 }
               })
      .join();
  EXPECT_EQ(said, "[test] in a thread");
}

#ifndef KINEMA_UNDER_SANITIZER  // which need address space
/// Ends this process with the error of a thread, and with what an allocation's error says, under a
/// limit of the address space that leaves no room for a stack.
[[noreturn]] void end_without_address_space() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  constexpr rlim_t kLeft = rlim_t{2} << 20;
  const rlim_t used = static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  const rlimit limit{.rlim_cur = used + kLeft, .rlim_max = RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
  auto* const others = new std::vector<std::jthread>();  // never joined: this process ends
  try {
    for (;;) {  // the C library keeps some stacks of earlier threads
      others->push_back(start_thread([] { std::this_thread::sleep_for(std::chrono::hours(1)); },
                                     [](const std::exception_ptr&) {}));
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "thread: %s; memory: %s\n", error.what(), memory_remedy().c_str());
  }
  _exit(3);
}

TEST(StartThread, NamesTheLimitOfTheAddressSpaceWhereThatIsReached) {
  EXPECT_EQ(memory_remedy(), "") << "without a limit";
  EXPECT_EXIT(end_without_address_space(), testing::ExitedWithCode(3),
              "thread: .threads. this process cannot make another thread.*\n  the address space of "
              "this process is limited to .* GB: raise that limit \\(`ulimit -v`\\), of which each "
              "thread's stack takes a part; memory: \n  the address space .*`ulimit -v`");
}
#endif

TEST(StartThread, SaysThatNoThreadCanBeMadeAndWhatToRaise) {
  const ScarceThreads scarce(0);
  EXPECT_THAT([] { start_thread([] {}, [](const std::exception_ptr&) {}); },
              ThrowsMessage<Error>(HasSubstr("ulimit -u")));
  EXPECT_FALSE(start_optional_thread([] {}).joinable());
}

TEST(InBackground, RunsInTheCallerWhereNoThreadCanBeMade) {
  bool begun = false;
  const auto begin = [&] { begun = true; };
  EXPECT_EQ(in_background(begin, [] { return 3; }).get(), 3);
  EXPECT_TRUE(begun);

  const ScarceThreads scarce(0);
  begun = false;
  bool ran = false;
  auto result = in_background(begin, [&] {
    ran = true;
    return 4;
  });
  EXPECT_TRUE(ran) << "the work is done before its result is requested";
  EXPECT_FALSE(begun) << "the calling thread is not a thread of the work";
  EXPECT_EQ(result.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(result.get(), 4);
  EXPECT_THROW(in_background([] {}, []() -> int { fail("[test]"); }).get(), Error);
}

TEST(ReadAhead, HandsOutAllWithAsManyThreadsAsCanBeMade) {
  for (int threads = 0; threads < 4; ++threads) {
    const ScarceThreads scarce(threads);
    ReadAhead<int64_t> numbers({.end = 50, .threads = 3, .depth = 4}, [](int64_t i) { return i; });
    for (int64_t i = 0; i < 50; ++i) {
      EXPECT_EQ(numbers.position(), i);
      EXPECT_EQ(numbers.next(), i) << threads;
    }
    EXPECT_FALSE(numbers.next().has_value());
  }
}

TEST(ReadAhead, WithoutThreadsThrowsAtTheNumberThatFailedAndAgain) {
  const ScarceThreads scarce(0);
  int calls = 0;
  ReadAhead<int64_t> numbers({.end = 5, .threads = 2, .depth = 5}, [&](int64_t i) {
    ++calls;
    check(i != 1, "[test] broken");
    return i;
  });
  EXPECT_EQ(numbers.next(), 0);
  EXPECT_THROW(numbers.next(), Error);
  EXPECT_THROW(numbers.next(), Error);
  EXPECT_EQ(calls, 2);
}

TEST(ReadAhead, ThrowsWhatAThreadsBeginThrew) {
  ReadAhead<int64_t> numbers(
      {.threads = 1}, [](int64_t i) { return i; }, [](int) { fail("[test] no trace"); });
  EXPECT_THROW(numbers.next(), Error);
}

}  // namespace
}  // namespace kinema
