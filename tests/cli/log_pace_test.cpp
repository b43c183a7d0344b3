#include "kinema/cli/log_pace.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace kinema::cli {
namespace {

/// The steps, counted from 1, that get a line if each takes `seconds`.
std::vector<int64_t> lines(LogPace pace, int64_t first, int64_t max_steps, double seconds) {
  std::vector<int64_t> out;
  for (int64_t step = first; step < max_steps; ++step) {
    if (pace.is_due(step, static_cast<double>(step - first + 1) * seconds)) {
      out.push_back(step + 1);
    }
  }
  return out;
}

TEST(LogPace, GivesEachStepOfAShortRunALine) {
  EXPECT_EQ(lines(LogPace(0, 0, 4), 0, 4, 0.001), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(lines(LogPace(0, 0, 100), 0, 100, 0.001).size(), 100U);
}

TEST(LogPace, TakesAnyNumberOfSteps) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(lines(LogPace(0, 0, most), 0, 5, 0.001), (std::vector<int64_t>{1}));
}

TEST(LogPace, GivesALongRunAboutAHundred) {
  EXPECT_EQ(lines(LogPace(0, 0, 101), 0, 101, 0.001).size(), 52U);  // 1, 2, 4, ..., 100, 101
  EXPECT_EQ(lines(LogPace(0, 0, 100'000), 0, 100'000, 1e-4).size(), 101U);
}

TEST(LogPace, IsNeverSilentForLong) {
  // 10 s per step, of which every thousandth would get a line by its number.
  EXPECT_EQ(lines(LogPace(0, 0, 100'000), 0, 10, 10), (std::vector<int64_t>{1, 4, 7, 10}));
}

TEST(LogPace, FollowsTheKey) {
  EXPECT_EQ(lines(LogPace(5, 0, 12), 0, 12, 100), (std::vector<int64_t>{1, 5, 10, 12}));
  EXPECT_EQ(lines(LogPace(5, 7, 12), 7, 12, 100), (std::vector<int64_t>{8, 10, 12}));
}

}  // namespace
}  // namespace kinema::cli
