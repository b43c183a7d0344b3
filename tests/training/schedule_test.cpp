#include "kinema/training/schedule.h"

#include <gtest/gtest.h>

namespace kinema::training {
namespace {

TEST(Schedule, RisesFromZeroThenStaysConstant) {
  const Schedule schedule{.learning_rate = 2e-3, .steps = 100, .warmup_fraction = 0.1};

  EXPECT_EQ(schedule.warmup_steps(), 10);
  EXPECT_EQ(schedule(0), 0.0);  // the reference's first update has rate 0
  EXPECT_DOUBLE_EQ(schedule(5), 1e-3);
  EXPECT_DOUBLE_EQ(schedule(10), 2e-3);
  EXPECT_DOUBLE_EQ(schedule(100000), 2e-3);
}

TEST(Schedule, RoundsTheWarmupDown) {
  const Schedule schedule{.learning_rate = 1.0, .steps = 19, .warmup_fraction = 0.1};

  EXPECT_EQ(schedule.warmup_steps(), 1);
  EXPECT_EQ(schedule(0), 0.0);
  EXPECT_EQ(schedule(1), 1.0);
}

TEST(Schedule, StartsAtFullRateWithoutWarmup) {
  EXPECT_EQ((Schedule{.learning_rate = 0.5, .steps = 4, .warmup_fraction = 0.0})(0), 0.5);
}

TEST(Schedule, IsDescribedByWhereItBends) {
  EXPECT_EQ(describe(Schedule{.learning_rate = 2e-4, .steps = 20}),
            "learning rate 0.0002 after 2 steps");
  EXPECT_EQ(describe(Schedule{.learning_rate = 2e-4,
                              .steps = 20,
                              .warmup_fraction = 0,
                              .decay_fraction = 0.5,
                              .final_fraction = 0.1}),
            "learning rate 0.0002, falls from step 10 to 2e-05 at step 20");
}

TEST(Schedule, FallsLinearlyToTheFinalFraction) {
  const Schedule schedule{.learning_rate = 1.0,
                          .steps = 100,
                          .warmup_fraction = 0.0,
                          .decay_fraction = 0.4,
                          .final_fraction = 0.02};

  EXPECT_EQ(schedule(60), 1.0);
  EXPECT_DOUBLE_EQ(schedule(80), 0.51);
  EXPECT_DOUBLE_EQ(schedule(100), 0.02);
  EXPECT_DOUBLE_EQ(schedule(500), 0.02);
}

}  // namespace
}  // namespace kinema::training
