#include "kinema/training/loss_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kinema/core/error.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::training {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// One parameter w [2], at zero, and the loss mean((w - target)^2) for the input target [2].
LossFunction distance(const nn::Params& params) {
  const Tensor w = params.weight("w", {2}, {""}, nn::Init::zeros());
  return [w](std::span<const Tensor> inputs) {
    const Tensor d = w - inputs[0];
    return LossTerms{.loss = mean(d * d), .metrics = {sum(w)}};
  };
}

TEST(LossTrainer, MakesTheStepsOfAdamW) {
  const pjrt::Client client = pjrt::cpu_client();
  LossTrainer trainer(client, {{DType::F32, {2}}}, distance, {.b1 = 0.8, .b2 = 0.9, .eps = 1e-6});
  ASSERT_EQ(trainer.specs().size(), 1U);
  EXPECT_EQ(trainer.specs()[0].name, "w");
  HostArray target(Shape{DType::F32, {2}});
  target.as<float>()[0] = 1.0F;
  target.as<float>()[1] = -3.0F;
  const pjrt::Buffer on_device = client.to_device(target);
  std::vector<double> w(2), m(2), v(2);
  for (int t = 1; t <= 5; ++t) {
    double loss = 0;
    const double before = w[0] + w[1];
    for (size_t i = 0; i < 2; ++i) {
      const double d = w[i] - target.as<float>()[i];
      loss += d * d / 2;
      m[i] = 0.8 * m[i] + 0.2 * d;  // the gradient of the mean over two elements
      v[i] = 0.9 * v[i] + 0.1 * d * d;
      w[i] -=
          0.1 * (m[i] / (1 - std::pow(0.8, t))) / (std::sqrt(v[i] / (1 - std::pow(0.9, t))) + 1e-6);
    }
    const std::vector<float> values = trainer.step(std::vector{&on_device}, 0.1F);
    ASSERT_EQ(values.size(), 2U);
    // Some ten roundings of F32 a step, each 6e-8 of values below 10.
    constexpr double kTolerance = 1e-5;
    EXPECT_NEAR(values[0], loss, kTolerance) << "step " << t;
    EXPECT_NEAR(values[1], before, kTolerance) << "step " << t;
    const HostArray now = trainer.parameters().front();
    EXPECT_NEAR(now.as<float>()[0], w[0], kTolerance);
    EXPECT_NEAR(now.as<float>()[1], w[1], kTolerance);
  }
}

TEST(LossTrainer, NeedsAScalarLoss) {
  const pjrt::Client client = pjrt::cpu_client();
  const LossBuilder builder = [](const nn::Params& params) -> LossFunction {
    const Tensor w = params.weight("w", {2}, {""}, nn::Init::zeros());
    return [w](std::span<const Tensor> inputs) { return LossTerms{.loss = w - inputs[0]}; };
  };
  EXPECT_THAT(([&] {
                LossTrainer(client, {{DType::F32, {2}}}, builder);
              }),
              ThrowsMessage<Error>(HasSubstr("the loss is f32[2], expected f32[]")));
}

}  // namespace
}  // namespace kinema::training
