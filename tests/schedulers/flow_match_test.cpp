#include "kinema/schedulers/flow_match.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kinema::schedulers {
namespace {

// Computed with the reference's own class, given to six decimals.
TEST(FlowMatch, MatchesTheReferenceAtThreeLevels) {
  const FlowMatch flow;

  EXPECT_NEAR(flow.timestep(0.1), 250.0, 1e-9);
  EXPECT_NEAR(flow.timestep(0.5), 750.0, 1e-9);
  EXPECT_NEAR(flow.timestep(0.9), 964.2857, 5e-5);
  EXPECT_NEAR(flow.sigma(250.0), 0.2522455, 5e-8);
  EXPECT_NEAR(flow.sigma(750.0), 0.7507485, 5e-8);
  EXPECT_NEAR(flow.sigma(flow.timestep(0.9)), 0.9643926, 5e-8);
  EXPECT_NEAR(flow.weight(250.0), 1.2585, 5e-5);
  EXPECT_NEAR(flow.weight(flow.timestep(0.9)), 0.19723, 5e-6);
}

TEST(FlowMatch, FindsTheUniformNumberOfATimestep) {
  const FlowMatch flow;
  for (const double u : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    EXPECT_NEAR(flow.uniform(flow.timestep(u)), u, 1e-12);
  }
}

TEST(FlowMatch, WeightsVanishAtBothEndsAndPeakInTheMiddle) {
  const FlowMatch flow;

  EXPECT_NEAR(flow.weight(0.0), 0.0, 1e-12);
  EXPECT_NEAR(flow.weight(1000.0), 0.0, 1e-12);
  EXPECT_NEAR(flow.weight(500.0), 1.7943, 5e-5);
  EXPECT_NEAR(flow.weight(125.0), flow.weight(875.0), 1e-12);
}

// The scale has eight digits, so the mean is 1 to about 1e-7.
TEST(FlowMatch, WeightsAverageToOneOverTheGrid) {
  const FlowMatch flow;
  double sum = 0.0;
  for (int i = 0; i < 1000; ++i) {
    const double u = 1.0 + (flow.sigma_min - 1.0) * i / 999.0;
    sum += flow.weight(flow.timestep(u));
  }

  EXPECT_NEAR(sum / 1000.0, 1.0, 1e-6);
}

TEST(NormalQuantile, IsTheInverseOfTheDistribution) {
  for (const double z : {-4.5, -3.0, -1.0, -0.1, 0.0, 0.5, 2.0, 4.5}) {
    // The error bound in its comment, and that of the error function's u at the limits of double.
    EXPECT_NEAR(normal_quantile(0.5 * std::erfc(-z / std::sqrt(2.0))), z, 1e-6);
  }
  EXPECT_TRUE(std::isfinite(normal_quantile(0.0)));
  EXPECT_TRUE(std::isfinite(normal_quantile(1.0)));
}

TEST(FlowMatch, SigmaMinIsConfigurable) {
  const FlowMatch flow{.sigma_min = 0.0};

  EXPECT_EQ(flow.sigma(0.0), 0.0);
  EXPECT_EQ(flow.sigma(1000.0), 1.0);
}

}  // namespace
}  // namespace kinema::schedulers
