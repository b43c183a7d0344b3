#include "kinema/optimizers/laprop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "graph/evaluate.h"
#include "kinema/graph/ops.h"

namespace kinema::optimizers {
namespace {

TEST(AnnealedRate, BeginsWithZeroAndStaysThere) {
  const AnnealedRate rate{.learning_rate = 4e-5, .warmup = 1000};
  EXPECT_EQ(rate(0), 0.0);
  EXPECT_DOUBLE_EQ(rate(250), 1e-5);
  EXPECT_EQ(rate(1000), 4e-5);
  EXPECT_EQ(rate(1'000'000), 4e-5);
}

TEST(AnnealedRate, FallsToItsEnd) {
  AnnealedRate rate{
      .learning_rate = 1.0, .warmup = 0, .anneal = 10, .kind = AnnealedRate::Kind::LINEAR};
  EXPECT_EQ(rate(0), 1.0);
  EXPECT_DOUBLE_EQ(rate(5), 0.55);
  EXPECT_DOUBLE_EQ(rate(10), 0.1);
  EXPECT_DOUBLE_EQ(rate(50), 0.1);
  rate.kind = AnnealedRate::Kind::COSINE;
  EXPECT_DOUBLE_EQ(rate(5), 0.55);
  EXPECT_DOUBLE_EQ(rate(50), 0.1);
}

std::vector<float> values_of(const HostArray& x) {
  return {x.as<float>().begin(), x.as<float>().end()};
}

HostArray row(std::vector<float> values) {
  return HostArray::f32({static_cast<int64_t>(values.size())}, values);
}

// The first update by hand: the gradient (3, 4) of norm 5 is clipped to 0.3 of the parameter's norm
// 2, which no longer matters once it is divided by its own size.
TEST(LaProp, FirstUpdateIsTheSignTimesTheRate) {
  Graph graph;
  const Tensor p = graph.input({DType::F32, {2}});
  const Tensor g = graph.input({DType::F32, {2}});
  const std::vector<nn::ParamSpec> specs{{.name = "a/kernel", .shape = p.shape()}};
  const OptimizerState state{.params = {p},
                             .mu = {zeros_like(p)},
                             .nu = {zeros_like(p)},
                             .count = constant(graph, 0.0, {DType::S32, {}})};
  const Tensor rate = constant(graph, 0.5, {DType::F32, {}});
  const LaPropStep step = laprop(state, specs, std::vector<Tensor>{g}, rate, {});
  LaPropOptions decaying{.weight_decay = 0.1};
  const LaPropStep decayed = laprop(state, specs, std::vector<Tensor>{g}, rate, decaying);
  decaying.decays = [](const nn::ParamSpec& spec) { return spec.name.ends_with("/bias"); };
  const LaPropStep spared = laprop(state, specs, std::vector<Tensor>{g}, rate, decaying);
  const std::vector<Tensor> outputs{step.state.params[0], step.state.nu[0], decayed.state.params[0],
                                    spared.state.params[0]};
  const std::vector<HostArray> in{row({2.0F, 0.0F}), row({3.0F, -4.0F})};
  const std::vector<HostArray> out = HostProgram(graph, outputs)(in);

  const std::vector<float> after = values_of(out[0]);
  EXPECT_NEAR(after[0], 1.5F, 1e-6F);
  EXPECT_NEAR(after[1], 0.5F, 1e-6F);
  const float clipped = 3.0F / 5.0F * 0.3F * 2.0F;
  EXPECT_NEAR(values_of(out[1])[0], 1e-3F * clipped * clipped, 1e-9F);
  EXPECT_NEAR(values_of(out[2])[0], 1.5F - 0.5F * 0.1F * 2.0F, 1e-6F);
  EXPECT_EQ(values_of(out[3]), after);
}

// Layers of a stack are parameters each: one with a large gradient does not change another.
TEST(LaProp, ClipsEachLayerOfAStackByItself) {
  Graph graph;
  const Tensor p = graph.input({DType::F32, {2, 2}});
  const Tensor g = graph.input({DType::F32, {2, 2}});
  const std::vector<nn::ParamSpec> specs{{.name = "blocks.{}.w", .shape = p.shape(), .layers = 2}};
  const OptimizerState state{.params = {p},
                             .mu = {zeros_like(p)},
                             .nu = {zeros_like(p)},
                             .count = constant(graph, 0.0, {DType::S32, {}})};
  const LaPropStep step = laprop(state, specs, std::vector<Tensor>{g},
                                 constant(graph, 1.0, {DType::F32, {}}), {.agc = 1.0});
  const std::vector<HostArray> in{HostArray::f32({2, 2}, std::vector<float>{1, 0, 1, 0}),
                                  HostArray::f32({2, 2}, std::vector<float>{0.5F, 0, 100, 0})};
  const std::vector<float> nu =
      values_of(HostProgram(graph, std::vector<Tensor>{step.state.nu[0]})(in)[0]);
  EXPECT_NEAR(nu[0], 1e-3F * 0.25F, 1e-9F);
  EXPECT_NEAR(nu[2], 1e-3F, 1e-9F);
}

}  // namespace
}  // namespace kinema::optimizers
