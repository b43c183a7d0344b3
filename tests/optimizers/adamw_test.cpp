#include "kinema/optimizers/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::optimizers {
namespace {

// One F32 rounding is 6e-8 of a value; an update has about ten in sequence.
constexpr double kRelative = 2e-6;

/// AdamW in double precision, element by element: the closed form of adamw.h.
struct Reference {
  AdamWOptions options;
  std::vector<double> p, m, v;
  int64_t t = 0;

  void step(const std::vector<double>& gradient, double rate) {
    ++t;
    std::vector<double> g = gradient;
    if (options.max_value) {
      for (double& x : g) {
        x = std::clamp(x, -*options.max_value, *options.max_value);
      }
    }
    double norm = 0;
    for (const double x : g) {
      norm += x * x;
    }
    norm = std::sqrt(norm);
    const double factor =
        options.max_norm && norm >= *options.max_norm ? *options.max_norm / norm : 1.0;
    for (size_t i = 0; i < p.size(); ++i) {
      const double x = g[i] * factor;
      m[i] = options.b1 * m[i] + (1 - options.b1) * x;
      v[i] = options.b2 * v[i] + (1 - options.b2) * x * x;
      const double mh = m[i] / (1 - std::pow(options.b1, t));
      const double vh = v[i] / (1 - std::pow(options.b2, t));
      p[i] -= rate * (mh / (std::sqrt(vh) + options.eps) + options.weight_decay * p[i]);
    }
  }
};

/// One parameter [2, 2] whose gradient is an input.
struct OneUpdate {
  Graph graph;
  std::vector<nn::ParamSpec> specs{{.name = "w", .shape = {DType::F32, {2, 2}}}};
  std::vector<Tensor> outputs;

  explicit OneUpdate(const AdamWOptions& options) {
    const Shape shape = specs[0].shape;
    AdamWState state;
    state.params = {graph.input(shape)};
    state.mu = {graph.input(shape)};
    state.nu = {graph.input(shape)};
    state.count = graph.input({DType::S32, {}});
    const std::vector<Tensor> g{graph.input(shape)};
    const Tensor rate = graph.input({DType::F32, {}});
    const Tensor norm = sqrt(sum(gradient_sizes(specs, g).squares));
    const AdamWState next = adamw(state, specs, g, norm, rate, options);
    outputs = {next.params[0], next.mu[0], next.nu[0], next.count};
  }
};

class AdamW : public pjrt::CpuTest {
 protected:
  void expect_matches(const AdamWOptions& options) {
    OneUpdate update(options);
    const pjrt::Client client = pjrt::cpu_client();
    const runtime::Program program =
        runtime::Program::compile(client, update.graph, update.outputs);
    const std::vector<std::vector<double>> gradients = {
        {0.5, -2.0, 1e-4, 0.0}, {-0.1, 3.0, 2e-4, 1e-9}, {4.0, 0.1, -1e-4, 0.0}};
    Reference reference{options, {1.0, -2.0, 0.5, 3.0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
    const auto f32 = [](const std::vector<double>& x) {
      return HostArray::f32({2, 2}, std::vector<float>(x.begin(), x.end()));
    };
    std::vector<HostArray> state = {f32(reference.p), f32(reference.m), f32(reference.v),
                                    HostArray(Shape{DType::S32, {}})};
    for (const std::vector<double>& g : gradients) {
      const double rate = 0.01;
      std::vector<HostArray> arguments = state;
      arguments.push_back(f32(g));
      arguments.push_back(HostArray::f32({}, std::vector<float>{static_cast<float>(rate)}));
      state = program.run_on_host(arguments);
      reference.step(g, rate);
      for (size_t i = 0; i < 4; ++i) {
        SCOPED_TRACE(testing::Message() << "update " << reference.t << " element " << i);
        // An update is at most a few learning rates, so its rounding is relative to those.
        EXPECT_NEAR(state[0].as<float>()[i], reference.p[i],
                    kRelative * (std::abs(reference.p[i]) + rate));
        EXPECT_NEAR(state[1].as<float>()[i], reference.m[i], kRelative * std::abs(reference.m[i]));
        EXPECT_NEAR(state[2].as<float>()[i], reference.v[i], kRelative * std::abs(reference.v[i]));
      }
      EXPECT_EQ(state[3].as<int32_t>()[0], reference.t);
    }
  }
};

TEST_F(AdamW, MatchesTheClosedForm) { expect_matches({}); }
TEST_F(AdamW, KeepsItsBiasCorrectionForDecaysNearOne) { expect_matches({.b2 = 0.99999}); }
TEST_F(AdamW, AddsWeightDecayToTheUpdate) { expect_matches({.weight_decay = 0.1}); }
TEST_F(AdamW, ClipsTheGlobalNorm) { expect_matches({.max_norm = 1.0}); }
TEST_F(AdamW, ClipsValues) { expect_matches({.max_value = 0.3}); }
TEST_F(AdamW, ClipsValuesBeforeTheNorm) { expect_matches({.max_value = 2.0, .max_norm = 1.0}); }

TEST_F(AdamW, ComputesInF32AndRoundsOnceWhereTheStateIsBf16) {
  const Shape narrow{DType::BF16, {2, 2}};
  const std::vector<nn::ParamSpec> specs{{.name = "w", .shape = narrow}};
  const AdamWOptions options{.weight_decay = 0.1};
  // One update of the same values, from and to BF16 or F32.
  const auto updated = [&](DType kept) {
    Graph graph;
    const std::vector<Tensor> in{graph.input(narrow), graph.input(narrow), graph.input(narrow),
                                 graph.input(narrow)};
    const auto as_kept = [&](size_t i) { return std::vector{convert(in[i], kept)}; };
    const AdamWState state{as_kept(0), as_kept(1), as_kept(2), graph.input({DType::S32, {}})};
    const Tensor one = constant(graph, 1.0, {DType::F32, {}});
    const AdamWState next = adamw(state, specs, std::vector{in[3]}, one, one * 0.01, options);
    const auto values = [](std::vector<float> x) {
      return convert(HostArray::f32({2, 2}, std::move(x)), DType::BF16);
    };
    return runtime::evaluate(
        pjrt::cpu_client(), graph, std::vector{next.params[0], next.mu[0], next.nu[0]},
        std::vector{values({1.0F, -2.0F, 0.5F, 3.0F}), values({0.1F, 0.2F, -0.3F, 0.0F}),
                    values({0.4F, 0.01F, 2.0F, 1e-6F}), values({0.5F, -2.0F, 1e-4F, 0.25F}),
                    HostArray(Shape{DType::S32, {}})});
  };

  const std::vector<HostArray> wide = updated(DType::F32);
  const std::vector<HostArray> half = updated(DType::BF16);

  for (size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(half[i].shape.dtype, DType::BF16);
    EXPECT_EQ(half[i].bytes, convert(wide[i], DType::BF16).bytes) << "result " << i;
  }
}

TEST_F(AdamW, SparesTensorsOfLowRankFromDecay) {
  OneUpdate update({.weight_decay = 0.1, .decay_min_rank = 3});
  const pjrt::Client client = pjrt::cpu_client();
  const HostArray zeros(update.specs[0].shape);
  const HostArray ones = HostArray::f32({2, 2}, std::vector<float>(4, 1.0F));
  const HostArray rate = HostArray::f32({}, std::vector<float>{0.5F});

  const std::vector<HostArray> next = runtime::evaluate(
      client, update.graph, update.outputs,
      std::vector{ones, zeros, zeros, HostArray(Shape{DType::S32, {}}), zeros, rate});

  EXPECT_EQ(next[0].as<float>()[0], 1.0F);
}

TEST_F(AdamW, CountsTheRankOfOneLayerOfAStack) {
  Graph graph;
  const std::vector<nn::ParamSpec> specs{
      {.name = "blocks.{}.bias", .shape = {DType::F32, {2, 3}}, .layers = 2}};
  AdamWState state;
  state.params = {graph.input(specs[0].shape)};
  state.mu = {graph.input(specs[0].shape)};
  state.nu = {graph.input(specs[0].shape)};
  state.count = graph.input({DType::S32, {}});
  const std::vector<Tensor> g{zeros_like(state.params[0])};
  const Tensor one = constant(graph, 1.0, {DType::F32, {}});
  const std::vector<Tensor> next =
      adamw(state, specs, g, one, one, {.weight_decay = 0.1, .decay_min_rank = 2}).params;
  const HostArray zeros(specs[0].shape);
  const HostArray ones = HostArray::f32({2, 3}, std::vector<float>(6, 1.0F));

  const std::vector<HostArray> out =
      runtime::evaluate(pjrt::cpu_client(), graph, next,
                        std::vector{ones, zeros, zeros, HostArray(Shape{DType::S32, {}})});

  EXPECT_EQ(out[0].as<float>()[0], 1.0F);
}

TEST_F(AdamW, FindsSizesPerLayer) {
  Graph graph;
  const std::vector<nn::ParamSpec> specs{
      {.name = "a", .shape = {DType::F32, {2}}},
      {.name = "blocks.{}.w", .shape = {DType::F32, {2, 2}}, .layers = 2}};
  const std::vector<Tensor> g{constant_f32(graph, {2}, std::vector<float>{1, 2}),
                              constant_f32(graph, {2, 2}, std::vector<float>{3, 0, 0, 4})};
  const GradientSizes sizes = gradient_sizes(specs, g);
  const GradientSizes limited = gradient_sizes(specs, g, 3.0);

  const std::vector<HostArray> got = runtime::evaluate(
      pjrt::cpu_client(), graph,
      std::vector{sizes.squares, sizes.largest, limited.squares, limited.largest});

  const auto list = [&](size_t i) {
    const auto values = got[i].as<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_EQ(list(0), (std::vector<float>{5, 9, 16}));
  EXPECT_EQ(list(1), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(list(2), (std::vector<float>{5, 9, 9}));
  EXPECT_EQ(list(3), (std::vector<float>{2, 3, 4}));
}

}  // namespace
}  // namespace kinema::optimizers
