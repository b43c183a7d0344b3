#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "graph/gradient_check.h"
#include "kinema/models/dreamer/agent.h"

namespace kinema::dreamer {
namespace {

constexpr int64_t kRows = 2;

AgentConfig small() {
  AgentConfig c;
  c.observations = {{"state", {.shape = {3}}}};
  c.actions = {{"action", {.shape = {2}}}};
  c.rssm = {.deter = 4, .hidden = 3, .stoch = 2, .classes = 3, .imglayers = 1, .blocks = 2};
  c.encoder.units = c.decoder.units = 3;
  c.encoder.layers = c.decoder.layers = 1;
  for (HeadConfig* head : {&c.reward, &c.continuation, &c.policy, &c.value}) {
    *head = {.layers = 1, .units = 3, .bins = 5};
  }
  return c;
}

/// Parameters of the state-space model and what its loop is given, in F64.
struct Inputs {
  std::vector<nn::ParamSpec> specs;
  std::vector<HostArray> values;  // of the specs, then tokens, actions, noise

  Inputs(const AgentConfig& c, int64_t steps) {
    for (nn::ParamSpec& spec : parameters(c)) {
      if (spec.name.starts_with("dyn/")) {
        values.push_back(random_f64(spec.shape.dims, -0.6, 0.9, values.size() + 1));
        specs.push_back(std::move(spec));
      }
    }
    values.push_back(random_f64({kRows, steps, Encoder::tokens(c)}, -1, 1, 101));
    values.push_back(random_f64({kRows, steps, features(c.actions)}, -2, 2, 102));
    values.push_back(random_f64({kRows, steps, c.rssm.stoch, c.rssm.classes}, -1, 3, 103));
  }
};

/// The features of all steps as loops of so many steps, one after the other.
Tensor observed(const AgentConfig& c, const Inputs& in, std::span<const Tensor> x, int64_t length) {
  nn::Binder binder;
  for (size_t i = 0; i < in.specs.size(); ++i) {
    binder.add(in.specs[i].name, x[i]);
  }
  const Rssm rssm(nn::Params(binder, "", '/') / "dyn", c, Encoder::tokens(c));
  nn::ModelOptions options;
  options.activations_dtype = DType::F64;
  options.precision = Precision::HIGHEST;
  const auto given = x.subspan(in.specs.size());
  Graph& graph = given[0].graph();
  // An episode begins in the middle of the second row.
  const int64_t steps = given[0].dim(1);
  std::vector<float> begins(static_cast<size_t>(kRows * steps), 0.0F);
  begins[static_cast<size_t>(steps + steps / 2)] = 1.0F;
  const Tensor reset = compare(constant_f32(graph, {kRows, steps}, begins), Comparison::NE, 0.0);
  RssmState state = rssm.initial(graph, kRows, options);
  std::vector<Tensor> vectors;
  for (int64_t t = 0; t < steps; t += length) {
    const auto at = [&](Tensor all) { return slice(all, Axis(1), t, length); };
    const RssmFeatures now = rssm.observe(state, at(given[0]), at(given[1]), at(reset),
                                          {.noise = at(given[2])}, options);
    const auto last = [&](Tensor all) {
      return squeeze(slice(all, Axis(1), length - 1, 1), Axis(1));
    };
    state = {.deter = last(now.deter), .stoch = last(now.stoch)};
    vectors.push_back(now.vector());
  }
  return concatenate(vectors, Axis(1));
}

/// Samples are not smooth, so that differences would not tell: one loop is compared with several.
void expect_loops_agree(int64_t steps, int64_t part) {
  const AgentConfig c = small();
  const Inputs in(c, steps);
  std::array<std::vector<HostArray>, 2> results;
  for (const bool one_loop : {false, true}) {
    Graph graph;
    std::vector<Tensor> x;
    for (const HostArray& value : in.values) {
      x.push_back(graph.input(value.shape));
    }
    const Tensor y = observed(c, in, x, one_loop ? steps : part);
    std::vector<Tensor> outputs = gradients(weighted_sum(y), x);
    outputs.push_back(y);
    results[one_loop ? 1 : 0] = HostProgram(graph, outputs)(in.values);
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    SCOPED_TRACE(i < in.specs.size() ? in.specs[i].name : std::to_string(i));
    const auto a = results[0][i].as<double>();
    const auto b = results[1][i].as<double>();
    double largest = 0.0;
    for (const double value : a) {
      largest = std::max(largest, std::abs(value));
    }
    // Every parameter matters but those of the prior, which observes nothing; noise does not.
    const bool is_noise = i + 2 == results[0].size();
    const bool is_prior = i < in.specs.size() && in.specs[i].name.starts_with("dyn/prior");
    EXPECT_EQ(largest > 0.0, !is_noise && !is_prior);
    // Sums of so many terms in another order, each rounded to 2^-53, through as many steps.
    const double tolerance = largest * static_cast<double>(steps * steps) * std::ldexp(1.0, -52);
    for (size_t k = 0; k < a.size(); ++k) {
      ASSERT_NEAR(a[k], b[k], tolerance) << k;
    }
  }
}

TEST(DreamerLoops, GradientsThroughALoopAreThoseOfItsStepsOneByOne) { expect_loops_agree(6, 1); }

TEST(DreamerLoops, GradientsThroughSixtyFourStepsAreThoseOfShorterLoops) {
  expect_loops_agree(64, 16);
}

TEST(DreamerLoops, GradientsOfOneStepMatchFiniteDifferences) {
  const AgentConfig c = small();
  const Inputs in(c, 1);
  std::vector<HostArray> values(in.values.begin(),
                                in.values.begin() + static_cast<ptrdiff_t>(in.specs.size()));
  values.push_back(random_f64({kRows, c.rssm.deter}, -1, 1, 201));
  values.push_back(random_f64({kRows, c.rssm.stoch, c.rssm.classes}, 0, 1, 202));
  values.push_back(random_f64({kRows, features(c.actions)}, -0.9, 0.9, 203));
  expect_gradients_match(
      {{"core and prior",
        [&](std::span<const Tensor> x) {
          nn::Binder binder;
          for (size_t i = 0; i < in.specs.size(); ++i) {
            binder.add(in.specs[i].name, x[i]);
          }
          const Rssm rssm(nn::Params(binder, "", '/') / "dyn", c, Encoder::tokens(c));
          nn::ModelOptions options;
          options.activations_dtype = DType::F64;
          const auto given = x.subspan(in.specs.size());
          const Tensor deter = rssm.core({.deter = given[0], .stoch = given[1]}, given[2], options);
          return concatenate({reshape(deter, {-1}), reshape(rssm.prior(deter, options), {-1})},
                             Axis(0));
        },
        values}});
}

}  // namespace
}  // namespace kinema::dreamer
