#include "kinema/sample/reuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kinema/core/error.h"

namespace kinema::sample {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<int64_t> where(const std::vector<bool>& steps) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i]) {
      out.push_back(static_cast<int64_t>(i));
    }
  }
  return out;
}

std::vector<double> constant_ratios(int64_t steps, double prompted, double plain) {
  std::vector<double> out;
  for (int64_t i = 0; i < steps; ++i) {
    out.insert(out.end(), {prompted, plain});
  }
  return out;
}

TEST(MagCacheRule, SkipsWhileTheSummedErrorsStayBelowTheThreshold) {
  // Each skip multiplies the ratio by 0.99: errors 0.01, 0.0199, 0.0297, summed 0.01, 0.03, 0.06.
  MagCache cache{.ratios = constant_ratios(12, 0.99, 0.99), .longest_skip = 9, .retention = 0.25};
  cache.threshold = 0.05;
  EXPECT_THAT(where(magcache_skips(cache, 12, {}, true)), ElementsAre(3, 4, 6, 7, 9, 10));
  cache.threshold = 0.02;
  EXPECT_THAT(where(magcache_skips(cache, 12, {}, true)), ElementsAre(3, 5, 7, 9, 11));
  cache.threshold = 0.01;  // not below
  EXPECT_THAT(where(magcache_skips(cache, 12, {}, true)), ElementsAre());
}

TEST(MagCacheRule, LimitsConsecutiveSkips) {
  MagCache cache{.ratios = constant_ratios(10, 1, 1), .longest_skip = 2, .retention = 0.2};
  EXPECT_THAT(where(magcache_skips(cache, 10, {}, true)), ElementsAre(2, 3, 5, 6, 8, 9));
  cache.longest_skip = 0;
  EXPECT_THAT(where(magcache_skips(cache, 10, {}, true)), ElementsAre());
  // The first step has nothing to reuse.
  cache.longest_skip = 20;
  cache.retention = 0;
  EXPECT_FALSE(magcache_skips(cache, 10, {}, true)[0]);
}

TEST(MagCacheRule, SkipsDependOnGuidance) {
  const MagCache cache{.ratios = constant_ratios(10, 1, 0.5), .threshold = 0.1, .longest_skip = 1};
  EXPECT_THAT(where(magcache_skips(cache, 10, {}, true)), ElementsAre());
  EXPECT_THAT(where(magcache_skips(cache, 10, {}, false)), ElementsAre(2, 4, 6, 8));
}

TEST(MagCacheRule, ReadsTheNearestStepOfTheTable) {
  // 5 steps read a table of 3 at 0, 0.5, 1, 1.5, 2: rounding halves to even gives 0, 0, 1, 2, 2.
  MagCache cache{.ratios = {1, 1, 0.5, 0.5, 1, 1}, .threshold = 0.1, .longest_skip = 9};
  cache.retention = 0;
  EXPECT_THAT(where(magcache_skips(cache, 5, {}, true)), ElementsAre(1, 3, 4));
  cache.ratios = {0.5, 0.5, 1, 1};
  EXPECT_THAT(where(magcache_skips(cache, 1, {}, true)), ElementsAre());
}

TEST(MagCacheRule, EachExpertBeginsWithWholeSteps) {
  MagCache cache{.ratios = constant_ratios(20, 1, 1), .longest_skip = 99, .retention = 0.2};
  // 2 of 10 high-noise steps are kept; of the other 10, those up to 10 + 2.
  EXPECT_THAT(where(magcache_skips(cache, 20, 10, true)),
              ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 16, 17, 18, 19));
  cache.image_to_video = true;
  EXPECT_THAT(where(magcache_skips(cache, 20, 10, true)),
              ElementsAre(12, 13, 14, 15, 16, 17, 18, 19));
  cache.retention = 0;
  cache.image_to_video = false;
  EXPECT_FALSE(magcache_skips(cache, 20, 10, true)[10]);
}

TEST(MagCacheRule, RefusesInvalidTables) {
  EXPECT_THAT([] { magcache_skips({}, 5, {}, true); }, ThrowsMessage<Error>(HasSubstr("0 values")));
  EXPECT_THAT(
      [] {
        magcache_skips({.ratios = {1, 1, 1}}, 5, {}, true);
      },
      ThrowsMessage<Error>(HasSubstr("3 values")));
}

std::vector<int64_t> where(const std::vector<GuidanceReuse>& steps) {
  std::vector<bool> out;
  for (const GuidanceReuse& step : steps) {
    out.push_back(step.reuse);
  }
  return where(out);
}

TEST(GuidanceCacheRule, EveryFifthStepIsWhole) {
  // One transformer, 30 steps: from 10 to 27, computed at 10, 15, 20, 25.
  EXPECT_THAT(where(guidance_reuse({.height = 480}, 30, {})),
              ElementsAre(11, 12, 13, 14, 16, 17, 18, 19, 21, 22, 23, 24, 26, 27));
  // Tall frames end at 90 %.
  EXPECT_THAT(where(guidance_reuse({.height = 720}, 30, {})),
              ElementsAre(11, 12, 13, 14, 16, 17, 18, 19, 21, 22, 23, 24, 26));
}

TEST(GuidanceCacheRule, WeighsLowFrequenciesFirstAndHighOnesLater) {
  const auto steps = guidance_reuse({.height = 480}, 30, {});
  EXPECT_DOUBLE_EQ(steps[14].low, 1.2);
  EXPECT_DOUBLE_EQ(steps[14].high, 1.0);
  EXPECT_DOUBLE_EQ(steps[15].low, 1.0);
  EXPECT_DOUBLE_EQ(steps[15].high, 1.2);
}

TEST(GuidanceCacheRule, OnlyTheLowNoiseExpertReuses) {
  const auto steps = guidance_reuse({.height = 480}, 30, 17);
  // 17 is the expert's first step; 20 and 25 are computed by the interval; the end is 29.
  EXPECT_THAT(where(steps), ElementsAre(18, 19, 21, 22, 23, 24, 26, 27, 28));
  EXPECT_DOUBLE_EQ(steps[28].high, 1.2);
  EXPECT_THAT(where(guidance_reuse({.height = 480}, 30, 30)), ElementsAre());
}

TEST(SenCacheRule, ReusesWhileSampleAndTimeMoveLittle) {
  SenCache cache(20, {});
  std::vector<int64_t> reused;
  for (int64_t i = 0; i < 20; ++i) {
    if (cache.reuse(i, 1.0 - 0.001 * static_cast<double>(i), 0.01)) {
      reused.push_back(i);
    }
  }
  // Computed up to 6 and from 18; in between three are reused, then one is computed.
  EXPECT_THAT(reused, ElementsAre(6, 7, 8, 10, 11, 12, 14, 15, 16));

  SenCache far(20, {});
  for (int64_t i = 0; i < 20; ++i) {
    EXPECT_FALSE(far.reuse(i, 0.5, 0.11)) << i;
  }
}

TEST(SenCacheRule, TheSumOfTheDistancesCounts) {
  SenCache cache(20, {});
  const auto ask = [&](int64_t step) { return cache.reuse(step, 0.5, 0.04); };
  for (int64_t i = 0; i < 6; ++i) {
    ask(i);
  }
  EXPECT_TRUE(ask(6));   // 0.04
  EXPECT_TRUE(ask(7));   // 0.08
  EXPECT_FALSE(ask(8));  // 0.12
  EXPECT_TRUE(ask(9));
}

TEST(SenCacheRule, TheExpertsFirstStepIsWhole) {
  SenCache cache(20, 9);
  std::vector<bool> reused;
  for (int64_t i = 0; i < 20; ++i) {
    reused.push_back(cache.reuse(i, 0.5, 0));
  }
  EXPECT_FALSE(reused[9]);
  EXPECT_TRUE(reused[8]);
  EXPECT_TRUE(reused[10]);
}

}  // namespace
}  // namespace kinema::sample
