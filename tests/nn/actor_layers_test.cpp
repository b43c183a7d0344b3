#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "graph/gradient_check.h"
#include "kinema/nn/activation.h"
#include "kinema/nn/dense.h"
#include "kinema/nn/distributions.h"
#include "kinema/nn/image_conv.h"
#include "kinema/nn/init.h"
#include "kinema/nn/mlp.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/returns.h"
#include "kinema/nn/running_norm.h"

// Layers with kernels as JAX programs store them, distributions and returns: gradients by central
// differences; values are those of the reference cases.
namespace kinema::nn {
namespace {

using Operands = std::span<const Tensor>;
using Apply = std::function<Tensor(const Params& params, Operands x)>;

constexpr Precision kExactly = Precision::HIGHEST;

/// A layer with parameters of these names, which follow its inputs.
GradientCase with_parameters(std::string name, std::vector<HostArray> inputs,
                             std::vector<std::pair<std::string, Dims>> parameters,
                             const Apply& apply) {
  const size_t given = inputs.size();
  for (const auto& [key, dims] : parameters) {
    inputs.push_back(random_f64(dims, 0.2, 0.8, inputs.size() + 1));
  }
  return {.name = std::move(name),
          .function =
              [=](Operands all) {
                Binder binder;
                for (size_t i = 0; i < parameters.size(); ++i) {
                  binder.add(parameters[i].first, all[given + i]);
                }
                return apply(Params(binder, ""), all.first(given));
              },
          .inputs = std::move(inputs)};
}

GradientCase of_images(const char* name, ImageConv::Resize resize) {
  return with_parameters(name, {random_f64({2, 4, 6, 2})},
                         {{"kernel", {5, 5, 2, 3}}, {"bias", {3}}},
                         [=](const Params& params, Operands x) {
                           return ImageConv(params, 2, 3, 5, resize)(x[0], kExactly);
                         });
}

TEST(ActorLayers, GradientsOfLayersMatchFiniteDifferences) {
  const std::vector<std::pair<std::string, Dims>> scale{{"scale", {4}}};
  expect_gradients_match({
      with_parameters(
          "dense", {random_f64({2, 3, 4})}, {{"kernel", {4, 5}}, {"bias", {5}}},
          [](const Params& params, Operands x) { return Dense(params, 4, 5)(x[0], kExactly); }),
      with_parameters("blocks", {random_f64({2, 3, 4})}, {{"kernel", {2, 2, 3}}, {"bias", {6}}},
                      [](const Params& params, Operands x) {
                        return BlockDense(params, 4, 6, 2)(x[0], kExactly);
                      }),
      with_parameters("blocks in parts", {random_f64({3, 4}), random_f64({3, 2}, -1, 1, 9)},
                      {{"kernel", {2, 4, 3}}, {"bias", {6}}},
                      [](const Params& params, Operands x) {
                        const BlockDense dense(params, 8, 6, 2);
                        return biased(partial_block_product(x[0], dense.rows(0, 2), kExactly) +
                                          partial_product(x[1], dense.shared_rows(2, 2), kExactly),
                                      dense.bias(), DType::F64);
                      }),
      of_images("convolution", ImageConv::Resize::NONE),
      of_images("convolution of stride 2", ImageConv::Resize::DOWN),
      of_images("transposed convolution", ImageConv::Resize::UP),
      with_parameters("RMS norm", {random_f64({3, 4})}, scale,
                      [](const Params& params, Operands x) {
                        return ScaleNorm(params, 4, {.epsilon = 1e-2})(x[0]);
                      }),
      with_parameters("layer norm", {random_f64({3, 4})}, {{"scale", {4}}, {"shift", {4}}},
                      [](const Params& params, Operands x) {
                        return ScaleNorm(params, 4, {.kind = ScaleNorm::Kind::LAYER})(x[0]);
                      }),
      {"pooling", [](Operands x) { return max_pool(x[0]); }, {random_f64({1, 4, 2, 2})}},
      {"repeated pixels",
       [](Operands x) { return repeat_pixels(x[0]); },
       {random_f64({1, 2, 3, 2})}},
  });
}

TEST(ActorLayers, GradientsOfActivationsMatchFiniteDifferences) {
  std::vector<GradientCase> cases;
  for (const char* name :
       {"none", "silu", "gelu", "relu", "tanh", "sigmoid", "mish", "relu2", "swiglu"}) {
    cases.push_back({name,
                     [name](Operands x) { return activate(activation_from_string(name), x[0]); },
                     {random_f64({3, 4}, -3, 3, 1)}});
  }
  cases.push_back({"symlog", [](Operands x) { return symlog(x[0]); }, {random_f64({5}, -3, 3)}});
  cases.push_back({"symexp", [](Operands x) { return symexp(x[0]); }, {random_f64({5}, -3, 3)}});
  expect_gradients_match(cases);
}

TEST(ActorLayers, GradientsOfDistributionsMatchFiniteDifferences) {
  const HostArray logits = random_f64({3, 2, 4}, -2, 2, 1);
  const HostArray others = random_f64({3, 2, 4}, -2, 2, 2);
  const HostArray numbers = random_f64({6}, -3, 3, 3);
  const HostArray classes =
      HostArray::from<int32_t>(DType::S32, {3, 2}, std::vector<int32_t>{0, 3, 1, 1, 2, 0});
  // What nothing is differentiated by is F32.
  const HostArray targets = HostArray::f32({6}, std::vector<float>{0.3F, -1, 2.5F, 0, 7, 40});
  const HostArray parts = HostArray::f32({6}, std::vector<float>{0, 1, 0.5F, 0.997F, 0.2F, 1});
  const auto bins = [](Tensor x) { return symexp_bins(x.graph(), 5); };
  const HostArray of_bins = random_f64({6, 5}, -2, 2, 5);
  expect_gradients_match({
      {"entropy", [](Operands x) { return Categorical(x[0], 0.1).entropy(); }, {logits}},
      {"divergence",
       [](Operands x) { return Categorical(x[0], 0.1).kl(Categorical(x[1], 0.1)); },
       {logits, others}},
      {"log probability",
       [](Operands x) { return Categorical(x[0]).log_prob(x[1]); },
       {logits, classes}},
      {"normal",
       [](Operands x) {
         const Normal normal = Normal::bounded(x[0], x[1], 0.1, 1.0);
         return normal.log_prob(x[2]) + normal.entropy() + normal.sample(convert(x[2], DType::F64));
       },
       {numbers, random_f64({6}, -1, 1, 7), parts}},
      {"binary", [](Operands x) { return Binary(x[0]).loss(x[1]); }, {numbers, parts}},
      {"two-hot loss",
       [=](Operands x) { return TwoHot(x[0], bins(x[0])).loss(x[1]); },
       {of_bins, targets}},
      {"two-hot mean",
       [=](Operands x) { return TwoHot(x[0], bins(x[0])).mean() / 1e8; },
       {of_bins}},
  });
}

TEST(ActorLayers, GradientsOfReturnsMatchFiniteDifferences) {
  const auto of = [](uint64_t seed) { return random_f64({2, 5}, 0.1, 0.9, seed); };
  expect_gradients_match({
      {"lambda returns",
       [](Operands x) {
         return lambda_returns({.last = x[0], .terminal = x[1], .reward = x[2], .value = x[3]}, 0.9,
                               0.7);
       },
       {of(1), of(2), of(3), of(4)}},
      {"cumulative product", [](Operands x) { return cumulative_product(x[0]); }, {of(5)}},
  });
}

// The gradient of a sample is that of the probabilities, whatever was drawn.
TEST(ActorLayers, ASampleHasTheGradientOfTheProbabilities) {
  Graph graph;
  const Tensor logits = graph.input({DType::F64, {2, 3}});
  const Tensor noise = graph.input({DType::F64, {2, 3}});
  const Categorical given(logits, 0.05);
  const Tensor sample = given.straight_through(given.sample(noise));
  const std::vector<Tensor> outputs{
      sample, gradients(weighted_sum(sample), std::vector<Tensor>{logits})[0],
      gradients(weighted_sum(given.probabilities()), std::vector<Tensor>{logits})[0]};
  const std::vector<HostArray> in{
      random_f64({2, 3}, -1, 1, 1),
      HostArray::from<double>(DType::F64, {2, 3}, std::vector<double>{9, 0, 0, 0, 0, 9})};
  const std::vector<HostArray> out = HostProgram(graph, outputs)(in);
  const auto drawn = out[0].as<double>();
  EXPECT_EQ(std::vector<double>(drawn.begin(), drawn.end()),
            (std::vector<double>{1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(out[1].bytes, out[2].bytes);
}

TEST(ActorLayers, TruncatedNormalStaysWithinTwoDeviations) {
  const Dims dims{100, 200};
  const Init init = truncated_normal_in(dims);
  std::vector<float> values(20000);
  initial_values(init, dims, "kernel", 1, values);
  double squares = 0.0;
  float largest = 0.0F;
  for (const float value : values) {
    squares += static_cast<double>(value) * value;
    largest = std::max(largest, std::abs(value));
  }
  EXPECT_LE(largest, 2.0F * static_cast<float>(init.scale));
  // The variance of what is left is 1 / fan_in; its estimate from 20000 values is within 4 %.
  EXPECT_NEAR(squares / 20000.0 * 100.0, 1.0, 0.04);
  EXPECT_EQ(truncated_normal_in(dims, 0.0).kind, Init::Kind::ZEROS);
}

}  // namespace
}  // namespace kinema::nn
