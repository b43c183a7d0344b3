#include "kinema/replay/selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::replay {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int kSamples = 20000;

StepId numbered(uint32_t index) { return {.chunk = 1, .index = index}; }

/// The fraction of samples that each window gets.
std::map<int64_t, double> shares(Selector& selector) {
  std::map<int64_t, double> out;
  for (int i = 0; i < kSamples; ++i) {
    out[selector.sample()] += 1.0 / kSamples;
  }
  return out;
}

/// Four standard deviations of such a fraction.
double tolerance(double share) { return 4.0 * std::sqrt(share * (1.0 - share) / kSamples); }

void expect_shares(Selector& selector, const std::vector<double>& expected) {
  std::map<int64_t, double> actual = shares(selector);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[static_cast<int64_t>(i)], expected[i], tolerance(expected[i])) << i;
  }
}

TEST(Selectors, UniformTakesAllWindowsAlike) {
  Uniform selector(7);
  for (int64_t i = 0; i < 6; ++i) {
    selector.insert(i, {});
  }
  selector.erase(4);
  selector.erase(5);
  expect_shares(selector, {0.25, 0.25, 0.25, 0.25, 0.0, 0.0});
}

TEST(Selectors, PrioritizedTakesWindowsByTheirPriority) {
  Prioritized selector({.exponent = 1.0, .maxfrac = 0.0, .initial = 1.0, .zero_on_sample = false},
                       7);
  for (uint32_t i = 0; i < 4; ++i) {
    selector.insert(i, std::vector<StepId>{numbered(i)});
  }
  selector.prioritize(std::vector<StepId>{numbered(1), numbered(2)}, std::vector<double>{5.0, 0.0});
  expect_shares(selector, {1.0 / 7, 5.0 / 7, 0.0, 1.0 / 7});
  selector.erase(1);
  expect_shares(selector, {0.5, 0.0, 0.0, 0.5});
}

TEST(Selectors, WindowsWithoutPriorityComeFirst) {
  Prioritized selector({}, 7);
  for (uint32_t i = 0; i < 3; ++i) {
    selector.insert(i, std::vector<StepId>{numbered(i)});
  }
  selector.prioritize(std::vector<StepId>{numbered(0)}, std::vector<double>{100.0});
  // A sampled window gets priority 0: first the two without a priority, then the first window.
  std::map<int64_t, int> seen;
  for (int i = 0; i < 3; ++i) {
    ++seen[selector.sample()];
  }
  EXPECT_EQ(seen, (std::map<int64_t, int>{{0, 1}, {1, 1}, {2, 1}}));
  expect_shares(selector, {1.0 / 3, 1.0 / 3, 1.0 / 3});
}

TEST(Selectors, RecencyPrefersNewWindows) {
  Recency selector(4, 1.0, 7);
  for (int64_t i = 0; i < 6; ++i) {
    selector.insert(i, {});
  }
  selector.erase(0);
  selector.erase(1);
  const double sum = 1.0 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4;
  expect_shares(selector, {0, 0, 1 / sum / 4, 1 / sum / 3, 1 / sum / 2, 1 / sum});
}

TEST(Selectors, RecencyScalesAgesToFewWindows) {
  Recency selector(4, 1.0, 7);
  selector.insert(0, {});
  selector.insert(1, {});
  const double sum = 1.0 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4;
  expect_shares(selector, {(1.0 / 3 + 1.0 / 4) / sum, (1.0 + 1.0 / 2) / sum});
}

TEST(Selectors, AMixtureAsksEachAsOftenAsItsPart) {
  std::vector<std::pair<double, std::unique_ptr<Selector>>> parts;
  parts.emplace_back(0.5, std::make_unique<Uniform>(7));
  parts.emplace_back(
      0.5, std::make_unique<Prioritized>(
               PriorityOptions{.exponent = 1.0, .initial = 0.0, .zero_on_sample = false}, 7));
  Mixture selector(std::move(parts), 7);
  for (uint32_t i = 0; i < 2; ++i) {
    selector.insert(i, std::vector<StepId>{numbered(i)});
  }
  selector.prioritize(std::vector<StepId>{numbered(1)}, std::vector<double>{1.0});
  expect_shares(selector, {0.25, 0.75});
  EXPECT_THAT(([] {
                std::vector<std::pair<double, std::unique_ptr<Selector>>> half;
                half.emplace_back(0.5, std::make_unique<Uniform>(7));
                const Mixture wrong(std::move(half), 7);
              }),
              ThrowsMessage<Error>(HasSubstr("add up to 0.5")));
}

TEST(SumTree, FindsPlacesByRunningSums) {
  SumTree tree;
  for (size_t i = 0; i < 9; ++i) {
    tree.set(i, i == 3 ? 0.0 : 1.0);
  }
  EXPECT_EQ(tree.sum(), 8.0);
  EXPECT_EQ(tree.find(0.0), 0U);
  EXPECT_EQ(tree.find(3.5), 4U);
  EXPECT_EQ(tree.find(7.9), 8U);
  EXPECT_EQ(tree.find(8.0), 8U);  // rounding may result in the sum itself
}

}  // namespace
}  // namespace kinema::replay
