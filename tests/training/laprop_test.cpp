#include "kinema/training/laprop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "graph/evaluate.h"
#include "kinema/core/threefry.h"
#include "kinema/graph/ops.h"

namespace kinema::training {
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

/// F32 numbers in [-1, 1] times `scale`.
HostArray random_values(const Dims& dims, float scale, uint64_t seed) {
  HostArray out(Shape{DType::F32, dims});
  RandomStream random(random_key(seed, "laprop test"));
  for (float& value : out.as<float>()) {
    value = scale * (2.0F * random.uniform() - 1.0F);
  }
  return out;
}

// Small tensors are updated as one matrix; an Optimizer updates each by itself.
TEST(LaProp, TensorsUpdatedTogetherAreThoseUpdatedOneByOne) {
  const std::vector<std::pair<std::string, Dims>> tensors{
      {"scale", {}},         {"a/bias", {3}},          {"a/kernel", {5, 40}},
      {"b/bias", {64}},      {"b/kernel", {2, 7, 65}}, {"large/kernel", {300, 300}},
      {"stack/{}/w", {2, 9}}};
  for (const double decay : {0.0, 0.1}) {
    LaPropOptions options{.weight_decay = decay};
    options.decays = [](const nn::ParamSpec& spec) { return spec.name.ends_with("/kernel"); };
    Graph graph;
    std::vector<nn::ParamSpec> specs;
    OptimizerState state;
    std::vector<Tensor> gradients;
    std::vector<HostArray> in;
    for (const auto& [name, dims] : tensors) {
      specs.push_back({.name = name, .shape = {DType::F32, dims}});
      specs.back().layers = name.starts_with("stack") ? 2 : 0;
      // The gradients of some are clipped, those of others not.
      const float scale = in.size() % 8 == 0 ? 10.0F : 0.01F;
      for (auto* list : {&state.params, &gradients, &state.mu, &state.nu}) {
        list->push_back(graph.input({DType::F32, dims}));
        in.push_back(random_values(dims, list == &gradients ? scale : 1.0F, in.size()));
        if (list == &state.nu) {
          for (float& value : in.back().as<float>()) {
            value = value * value;
          }
        }
      }
    }
    state.count = constant(graph, 6.0, {DType::S32, {}});
    const Tensor rate = constant(graph, 0.5, {DType::F32, {}});
    const LaPropStep step = laprop(state, specs, gradients, rate, options);
    std::vector<Tensor> outputs;
    const auto optimizer = laprop(options);
    Update how{.factor = ones_like(rate),
               .number = constant(graph, 7.0, {DType::F32, {}}),
               .learning_rate = rate};
    how.shared = optimizer->shared(how);
    for (size_t i = 0; i < specs.size(); ++i) {
      Moments<Tensor> moments{.mu = {state.mu[i]}, .nu = {state.nu[i]}};
      const Tensor alone = optimizer->update(specs[i], state.params[i], moments, gradients[i], how);
      outputs.insert(outputs.end(), {alone, moments.mu[0], moments.nu[0], step.state.params[i],
                                     step.state.mu[i], step.state.nu[i]});
    }
    outputs.push_back(norm(gradients));
    outputs.push_back(root_mean_square(state.params));
    const std::vector<HostArray> out = HostProgram(graph, outputs)(in);
    double squares = 0.0;
    double elements = 0.0;
    double param_squares = 0.0;
    for (size_t i = 0; i < specs.size(); ++i) {
      SCOPED_TRACE(specs[i].name);
      for (const float g : in[4 * i + 1].as<float>()) {
        squares += static_cast<double>(g) * g;
        elements += 1.0;
      }
      for (const float p : in[4 * i].as<float>()) {
        param_squares += static_cast<double>(p) * p;
      }
      for (size_t k = 0; k < 3; ++k) {
        const std::vector<float> alone = values_of(out[6 * i + k]);
        const std::vector<float> together = values_of(out[6 * i + 3 + k]);
        ASSERT_EQ(alone.size(), together.size());
        for (size_t e = 0; e < alone.size(); ++e) {
          // Norms of up to 910 elements in another order, each sum rounded to 2^-24; a value is at
          // most a few times the clipping's factor.
          ASSERT_NEAR(alone[e], together[e], 1e-4F * std::max(1.0F, std::abs(alone[e]))) << e;
        }
      }
    }
    EXPECT_NEAR(values_of(out[out.size() - 2])[0], std::sqrt(squares), 1e-4 * std::sqrt(squares));
    EXPECT_NEAR(values_of(out.back())[0], std::sqrt(param_squares / elements), 1e-4);
  }
}

}  // namespace
}  // namespace kinema::training
