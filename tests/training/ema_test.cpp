#include "kinema/training/ema.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::training {
namespace {

using EmaTest = pjrt::CpuTest;

TEST(Ema, FollowsQuicklyAtFirstAndNeverMoreSlowlyThanAsked) {
  const Ema ema{.decay = 0.5};
  EXPECT_DOUBLE_EQ(ema.decay_at(1), 2.0 / 11.0);
  EXPECT_DOUBLE_EQ(ema.decay_at(1000), 0.5);
}

TEST(Ema, EqualsTheParametersUntilItStarts) {
  const Ema ema{.decay = 0.9, .update_after_step = 2};
  for (const int64_t n : {1, 2, 3}) {
    EXPECT_EQ(ema.decay_at(n), 0.0) << n;
  }
  EXPECT_DOUBLE_EQ(ema.decay_at(4), 2.0 / 11.0);
}

TEST(Ema, WarmsUpByItsPower) {
  const Ema ema{
      .decay = 0.99, .update_after_step = 0, .warmup = true, .inv_gamma = 2.0, .power = 0.75};
  EXPECT_DOUBLE_EQ(ema.decay_at(9), 1.0 - std::pow(1.0 + 8.0 / 2.0, -0.75));
}

TEST_F(EmaTest, IsTheSameInAProgram) {
  std::vector<float> steps{1, 2, 3, 4, 5, 100, 10000};
  for (const Ema& ema : {Ema{.decay = 0.9}, Ema{.decay = 0.999, .update_after_step = 2},
                         Ema{.decay = 0.999, .update_after_step = 2, .warmup = true},
                         Ema{.decay = 0.99, .warmup = true, .inv_gamma = 2.0, .power = 0.75}}) {
    Graph graph;
    std::vector<Tensor> decays;
    for (const float step : steps) {
      decays.push_back(ema.decay_at(constant(graph, step, {DType::F32, {}})));
    }
    const std::vector<HostArray> found = runtime::evaluate(pjrt::cpu_client(), graph, decays);
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_NEAR(found[i].as<float>()[0], ema.decay_at(static_cast<int64_t>(steps[i])), 1e-6)
          << "step " << steps[i];
    }
  }
}

}  // namespace
}  // namespace kinema::training
