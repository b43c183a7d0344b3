#include "kinema/core/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>

namespace kinema {
namespace {

TEST(ReadAhead, HandsOutInOrderWhatSeveralThreadsMake) {
  ReadAhead<std::unique_ptr<int64_t>> numbers(
      {.first = 3, .end = 200, .threads = 4, .depth = 8},
      [](int64_t i) { return std::make_unique<int64_t>(i); });
  for (int64_t i = 3; i < 200; ++i) {
    EXPECT_EQ(numbers.position(), i);
    const auto next = numbers.next();
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(**next, i);
  }
  EXPECT_FALSE(numbers.next().has_value());
  EXPECT_FALSE(numbers.next().has_value());
}

TEST(ReadAhead, IsNeverFurtherAheadThanItsDepth) {
  std::atomic<int64_t> begun = 0;
  std::atomic<int64_t> taken = 0;
  std::atomic<bool> too_far = false;
  ReadAhead<int64_t> numbers({.threads = 4, .depth = 3}, [&](int64_t i) {
    // `taken` is a lower bound on what was taken when the number before it was handed out.
    too_far = too_far || ++begun > taken + 1 + 3;
    return i;
  });
  for (int i = 0; i < 100; ++i) {
    numbers.next();
    ++taken;
  }
  EXPECT_FALSE(too_far);
}

TEST(ReadAhead, ThrowsAtTheNumberThatFailedAndAgainWhenAskedAgain) {
  ReadAhead<int64_t> numbers({.end = 5, .threads = 2, .depth = 5}, [](int64_t i) {
    if (i == 1) {
      throw std::runtime_error("broken");
    }
    return i;
  });
  EXPECT_EQ(numbers.next(), 0);
  EXPECT_THROW(numbers.next(), std::runtime_error);
  EXPECT_THROW(numbers.next(), std::runtime_error);
}

TEST(ReadAhead, GivesEachThreadItsNumber) {
  std::atomic<int> sum = 0;
  {
    ReadAhead<int64_t> none(
        {.end = 0, .threads = 3}, [](int64_t i) { return i; },
        [&](int thread) { sum += 1 << thread; });
  }
  EXPECT_EQ(sum, 7);
}

}  // namespace
}  // namespace kinema
