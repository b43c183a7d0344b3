#include "kinema/training/early_stopping.h"

#include <gtest/gtest.h>

#include <limits>

namespace kinema::training {
namespace {

TEST(EarlyStopping, CountsEvaluationsSinceTheBest) {
  EarlyStopping early_stopping;
  EXPECT_FALSE(early_stopping.is_over(1));
  early_stopping.add(10, 0.5);
  early_stopping.add(20, 0.4);
  early_stopping.add(30, 0.4);  // not lower
  EXPECT_EQ(early_stopping.without, 1);
  EXPECT_TRUE(early_stopping.is_over(1));
  EXPECT_FALSE(early_stopping.is_over(2));
  early_stopping.add(40, 0.45);
  EXPECT_TRUE(early_stopping.is_over(2));
  EXPECT_FALSE(early_stopping.is_over(0)) << "0 is never";
  EXPECT_EQ(describe(early_stopping),
            "2 evaluations without improvement, the best loss is 0.4000, after step 20");
  early_stopping.add(50, 0.3);
  EXPECT_EQ(early_stopping.without, 0);
  EXPECT_EQ(early_stopping.best_step, 50);
}

TEST(EarlyStopping, IgnoresNonFiniteLosses) {
  EarlyStopping early_stopping;
  early_stopping.add(10, std::numeric_limits<double>::quiet_NaN());
  early_stopping.add(20, std::numeric_limits<double>::infinity());
  EXPECT_FALSE(early_stopping.best.has_value());
  EXPECT_EQ(describe(early_stopping), "2 evaluations without improvement");
  early_stopping.add(30, 2.0);
  EXPECT_EQ(early_stopping.best, 2.0);
}

}  // namespace
}  // namespace kinema::training
