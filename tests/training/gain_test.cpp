#include "kinema/training/gain.h"

#include <gtest/gtest.h>

#include <limits>

namespace kinema::training {
namespace {

TEST(Gain, CountsEvaluationsSinceTheBest) {
  Gain gain;
  EXPECT_FALSE(gain.is_over(1));
  gain.add(10, 0.5);
  gain.add(20, 0.4);
  gain.add(30, 0.4);  // not lower
  EXPECT_EQ(gain.without, 1);
  EXPECT_TRUE(gain.is_over(1));
  EXPECT_FALSE(gain.is_over(2));
  gain.add(40, 0.45);
  EXPECT_TRUE(gain.is_over(2));
  EXPECT_FALSE(gain.is_over(0)) << "0 is never";
  EXPECT_EQ(describe(gain),
            "2 evaluations without improvement, the best loss is 0.4000, after step 20");
  gain.add(50, 0.3);
  EXPECT_EQ(gain.without, 0);
  EXPECT_EQ(gain.best_step, 50);
}

TEST(Gain, IsNoneInALossThatIsNotFinite) {
  Gain gain;
  gain.add(10, std::numeric_limits<double>::quiet_NaN());
  gain.add(20, std::numeric_limits<double>::infinity());
  EXPECT_FALSE(gain.best.has_value());
  EXPECT_EQ(describe(gain), "2 evaluations without improvement");
  gain.add(30, 2.0);
  EXPECT_EQ(gain.best, 2.0);
}

}  // namespace
}  // namespace kinema::training
