// Adapters of linear layers and convolutions, by their formulas and by central differences.
#include "kinema/nn/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "arrays.h"
#include "graph/gradient_check.h"
#include "kinema/core/error.h"
#include "kinema/nn/conv.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/params.h"

namespace kinema::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(KroneckerSizes, AreThoseOfLycoris) {
  // As lycoris.functional.factorization of LyCORIS 4.1.3.
  EXPECT_EQ(kronecker_sizes(127, -1), (std::pair<int64_t, int64_t>{1, 127}));
  EXPECT_EQ(kronecker_sizes(128, -1), (std::pair<int64_t, int64_t>{8, 16}));
  EXPECT_EQ(kronecker_sizes(250, -1), (std::pair<int64_t, int64_t>{10, 25}));
  EXPECT_EQ(kronecker_sizes(250, 4), (std::pair<int64_t, int64_t>{2, 125}));
  EXPECT_EQ(kronecker_sizes(360, -1), (std::pair<int64_t, int64_t>{18, 20}));
  EXPECT_EQ(kronecker_sizes(360, 16), (std::pair<int64_t, int64_t>{15, 24}));
  EXPECT_EQ(kronecker_sizes(512, 4), (std::pair<int64_t, int64_t>{4, 128}));
  EXPECT_EQ(kronecker_sizes(1024, 8), (std::pair<int64_t, int64_t>{8, 128}));
}

/// A linear layer of 6 inputs and 4 outputs with an adapter: its parameters in F64, in the order of
/// their specs, and the adapter of a graph's tensors for them.
struct Layer {
  explicit Layer(AdapterKind kind, int64_t factor = -1, int64_t rank = 1) {
    LowRanks ranks{{"proj", rank}};
    ranks.kind = kind;
    ranks.kronecker_factor = factor;
    SpecCollector collector([](const std::string&) { return DType::F64; }, ranks);
    const Linear recorded(Params(collector, "proj"), 6, 4, {.bias = false});
    specs = collector.take();
  }
  std::vector<HostArray> inputs() const {
    std::vector<HostArray> out;
    for (const ParamSpec& spec : specs) {
      out.push_back(random_f64(spec.shape.dims, 0.5, 1.5, out.size() + 1));
    }
    out.push_back(random_f64({3, 6}, -1, 1, 99));
    return out;
  }
  /// x is the last input.
  Tensor operator()(std::span<const Tensor> in) const {
    Binder binder(specs, in.first(specs.size()));
    return Linear(Params(binder, "proj"), 6, 4, {.bias = false})(in.back(), Precision::HIGHEST);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const ParamSpec& spec : specs) {
      out.push_back(spec.name.substr(std::string("proj.").size()));
    }
    return out;
  }

  std::vector<ParamSpec> specs;
};

Tensor rows_by(Tensor x, Tensor w) {
  return dot_general(x, w, {.lhs_contract = {1}, .rhs_contract = {1}}, Precision::HIGHEST);
}
Tensor times(Tensor a, Tensor b) {
  return dot_general(a, b, {.lhs_contract = {1}, .rhs_contract = {0}}, Precision::HIGHEST);
}

/// w1 (x) w2 by repetition of their elements.
Tensor kronecker(Tensor a, Tensor b) {
  const Dims& p = a.shape().dims;
  const Dims& q = b.shape().dims;
  const Tensor left = broadcast_in_dim(a, {p[0], q[0], p[1], q[1]}, {0, 2});
  const Tensor right = broadcast_in_dim(b, {p[0], q[0], p[1], q[1]}, {1, 3});
  return reshape(left * right, {p[0] * q[0], p[1] * q[1]});
}

void expect_equal(const TensorFunction& a, const TensorFunction& b,
                  const std::vector<HostArray>& inputs) {
  Graph graph;
  std::vector<Tensor> in;
  for (const HostArray& array : inputs) {
    in.push_back(graph.input(array.shape));
  }
  const std::vector<HostArray> got = evaluate(graph, std::vector<Tensor>{a(in), b(in)}, inputs);
  for (size_t i = 0; i < got[0].as<double>().size(); ++i) {
    // Sums of some fifty products below 10, in F64.
    EXPECT_NEAR(got[0].as<double>()[i], got[1].as<double>()[i], 1e-12);
  }
}

TEST(LinearAdapter, LohaAddsTheProductByElements) {
  const Layer layer(AdapterKind::LOHA, -1, 2);
  EXPECT_THAT(layer.names(), ElementsAre("weight", "hada_w1_a", "hada_w1_b", "hada_w2_a",
                                         "hada_w2_b", "lora_scale"));
  expect_equal(
      layer,
      [](std::span<const Tensor> in) {
        const Tensor change = times(in[1], in[2]) * times(in[3], in[4]);
        return rows_by(in[6], in[0] + change * in[5]);
      },
      layer.inputs());
}

TEST(LinearAdapter, LokrAddsTheKroneckerProduct) {
  const Layer whole(AdapterKind::LOKR, 2, 100);
  EXPECT_THAT(whole.names(), ElementsAre("weight", "lokr_w1", "lokr_w2", "lora_scale"));
  EXPECT_EQ(whole.specs[1].shape.dims, (Dims{2, 2}));
  expect_equal(
      whole,
      [](std::span<const Tensor> in) {
        return rows_by(in[4], in[0] + kronecker(in[1], in[2]) * in[3]);
      },
      whole.inputs());
  const Layer factored(AdapterKind::LOKR, 2, 1);
  EXPECT_THAT(factored.names(),
              ElementsAre("weight", "lokr_w1", "lokr_w2_a", "lokr_w2_b", "lora_scale"));
  expect_equal(
      factored,
      [](std::span<const Tensor> in) {
        return rows_by(in[5], in[0] + kronecker(in[1], times(in[2], in[3])) * in[4]);
      },
      factored.inputs());
}

TEST(LinearAdapter, DoraRescalesRowsToTheTrainedNorms) {
  const Layer layer(AdapterKind::DORA, -1, 2);
  EXPECT_THAT(layer.names(), ElementsAre("weight", "lora_A.weight", "lora_B.weight", "lora_scale",
                                         "lora_magnitude_vector"));
  const auto expected = [](std::span<const Tensor> in, bool stops) {
    const Tensor v = in[0] + times(in[2] * in[3], in[1]);
    const Tensor norms = sqrt(sum(square(v), {1}));
    return rows_by(in[5], v) * (in[4] / (stops ? stop_gradient(norms) : norms));
  };
  expect_equal(
      layer, [&](std::span<const Tensor> in) { return expected(in, false); }, layer.inputs());
  // The norms have no gradient (arXiv:2402.09353, 4.3).
  for (size_t i = 0; i < layer.specs.size(); ++i) {
    const auto gradient = [i](const TensorFunction& f) {
      return [f, i](std::span<const Tensor> in) {
        return gradients(weighted_sum(f(in)), std::vector{in[i]})[0];
      };
    };
    expect_equal(gradient(layer),
                 gradient([&](std::span<const Tensor> in) { return expected(in, true); }),
                 layer.inputs());
  }
}

TEST(LinearAdapter, GradientsAreDifferenceQuotients) {
  std::vector<GradientCase> cases;
  for (const auto& [name, layer] :
       {std::pair("lora", Layer(AdapterKind::LORA, -1, 2)),
        std::pair("loha", Layer(AdapterKind::LOHA, -1, 2)),
        std::pair("lokr", Layer(AdapterKind::LOKR, 2, 100)),
        std::pair("lokr of three factors", Layer(AdapterKind::LOKR, 2, 1))}) {
    cases.push_back({name, layer, layer.inputs()});
  }
  expect_gradients_match(cases);
}

TEST(ConvAdapter, AddsTheProductOfTheFlattenedKernels) {
  SpecCollector collector([](const std::string&) { return DType::F64; }, {{"conv", 2}});
  const Conv2d recorded(Params(collector, "conv"), 3, 4, 3);
  const std::vector<ParamSpec> specs = collector.take();
  ASSERT_EQ(specs.size(), 5U);
  EXPECT_EQ(specs[2].shape.dims, (Dims{2, 3, 3, 3}));
  EXPECT_EQ(specs[3].shape.dims, (Dims{4, 2, 1, 1}));
  std::vector<HostArray> inputs;
  for (const ParamSpec& spec : specs) {
    inputs.push_back(random_f64(spec.shape.dims, -1, 1, inputs.size() + 1));
  }
  inputs.push_back(random_f64({1, 3, 5, 4}, -1, 1, 99));
  const TensorFunction layer = [&](std::span<const Tensor> in) {
    Binder binder(specs, in.first(specs.size()));
    return Conv2d(Params(binder, "conv"), 3, 4, 3)(in.back(), {1, 1}, 2, Precision::HIGHEST);
  };
  expect_equal(
      layer,
      [](std::span<const Tensor> in) {
        const Tensor change = times(reshape(in[3], {4, 2}) * in[4], reshape(in[2], {2, 27}));
        const Tensor y = convolution(
            in[5], in[0] + reshape(change, {4, 3, 3, 3}),
            {.strides = {2, 2}, .pad = {{1, 1}, {1, 1}}, .precision = Precision::HIGHEST});
        return y + reshape(in[1], {4, 1, 1});
      },
      inputs);
  expect_gradient_matches(layer, inputs);
}

TEST(ConvAdapter, IsALowRankProductOnly) {
  LowRanks ranks{{"conv", 2}};
  ranks.kind = AdapterKind::LOHA;
  SpecCollector collector([](const std::string&) { return DType::F32; }, ranks);
  EXPECT_THAT([&] { Conv2d(Params(collector, "conv"), 3, 4, 3); },
              ThrowsMessage<Error>(HasSubstr("adapter_type=lora")));
}

}  // namespace
}  // namespace kinema::nn
