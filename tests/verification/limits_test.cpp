#include "kinema/verification/compare.h"

#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::verification {
namespace {

TEST(Limits, AreThoseOfTheFirstPatternThatMatches) {
  const Limits limits(io::Json::parse(R"({"limits": {
      "*_codes": {"absolute": 0},
      "*_scale*": {"relative": 3e-07},
      "linear away from plain": {"prediction": [0.9, 1.1]},
      "linear.*": {"of_largest": 0.1, "rms_of_rms": 0.2},
      "loss": {"absolute": 1, "rms": 2}}})",
                                      "case.json"));
  EXPECT_EQ(limits.of("linear.x_codes").of_largest, 0.0);
  EXPECT_EQ(limits.of("linear.dy_scale_for_dx").relative, 3e-07);
  EXPECT_EQ(limits.of("linear.y").of_largest, 0.1);
  EXPECT_EQ(limits.of("linear.y").rms_of_rms, 0.2);
  EXPECT_EQ(limits.of("loss").rms, 2.0);
  EXPECT_FALSE(limits.of("loss").rms_of_rms.has_value());
  EXPECT_THROW(limits.of("losses"), Error);
  EXPECT_THROW(limits.of("mlp.y"), Error);
}

TEST(Limits, OrThoseOfTheLongestOne) {
  const Limits limits(io::Json::parse(R"({"limits": {
      "tap.*": {"relative": 0.1}, "tap.time_sinusoid": {"absolute": 0.2}, "*": {"rms": 3}}})",
                                      "case.json"),
                      Limits::Which::LONGEST);
  EXPECT_EQ(limits.of("tap.x").relative, 0.1);
  EXPECT_EQ(limits.of("tap.time_sinusoid").absolute, 0.2);
  EXPECT_EQ(limits.of("output").rms, 3.0);
}

TEST(Limits, AllowForTheReferencesOwnError) {
  const Limits limits(io::Json::parse(R"({"float64": {"worst": 0.002},
      "limits": {"index": {"absolute": 0}, "grad": {"of_largest": 0.1}, "*": {"of_largest": 1e-3}}})",
                                      "case.json"),
                      Limits::Which::LONGEST);
  EXPECT_EQ(limits.of("index").of_largest, 0.0);
  EXPECT_EQ(limits.of("grad").of_largest, 0.1);
  EXPECT_EQ(limits.of("loss").of_largest, 0.004);
}

}  // namespace
}  // namespace kinema::verification
