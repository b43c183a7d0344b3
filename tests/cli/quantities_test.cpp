#include "kinema/cli/quantities.h"

#include <gtest/gtest.h>

namespace kinema::cli {
namespace {

TEST(Quantities, AreReadAtAGlance) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(812), "812");
  EXPECT_EQ(count_text(14'120), "14.1 k");
  EXPECT_EQ(count_text(999'600), "1.00 M");
  EXPECT_EQ(count_text(1'418'996'800), "1.42 B");
  EXPECT_EQ(count_text(14'288'491'584), "14.3 B");
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(clock_text(65.9), "1:05");
  EXPECT_EQ(clock_text(3723), "1:02:03");
}

}  // namespace
}  // namespace kinema::cli
