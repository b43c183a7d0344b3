#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "arrays.h"
#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/conv.h"
#include "kinema/nn/dropout.h"
#include "kinema/nn/embedding.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/params.h"
#include "kinema/nn/rope.h"
#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::nn {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Params, OpenTheCheckpointsKeyPath) {
  SpecCollector specs([](const std::string&) { return DType::BF16; });
  const Params root(specs, "");
  const Tensor recorded = (root / "a").weight("weight", {2, 3}, {"x", "y"}, Init::xavier());
  specs.set_layers(4);
  (root / "blocks.{}" / "b").weight("bias", {5}, {""}, Init::zeros());

  const std::vector<ParamSpec> got = specs.take();
  EXPECT_FALSE(recorded);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].name, "a.weight");
  EXPECT_EQ(got[0].shape, (Shape{DType::BF16, {2, 3}}));
  EXPECT_EQ(got[0].key(0), "a.weight");
  EXPECT_EQ(got[1].shape, (Shape{DType::BF16, {4, 5}}));
  EXPECT_EQ(got[1].layer_shape(), (Shape{DType::BF16, {5}}));
  EXPECT_EQ(got[1].key(3), "blocks.3.b.bias");
}

TEST(Params, NameAKeyThatIsNotThereOrOfAnotherShape) {
  Graph graph;
  Binder binder;
  binder.add("a.weight", graph.input({DType::F32, {2, 3}}));
  const Params root(binder, "");
  EXPECT_THAT(
      [&] {
        (root / "b").weight("weight", {2, 3}, {"", ""}, {});
      },
      ThrowsMessage<Error>(HasSubstr("`b.weight`")));
  EXPECT_THAT(
      [&] {
        (root / "a").weight("weight", {3, 2}, {"", ""}, {});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("f32[2,3]"), HasSubstr("[3,2]"))));
}

TEST(AttentionOptions, NamesShapesThatDoNotFit) {
  Graph graph;
  const Tensor q = graph.input({DType::F32, {1, 4, 2, 8}});
  const Tensor k = graph.input({DType::F32, {1, 5, 3, 8}});
  EXPECT_THAT([&] { attention(q, k, k, {}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("f32[1,4,2,8]"), HasSubstr("f32[1,5,3,8]"))));
}

class NnTest : public pjrt::CpuTest {
 protected:
  std::vector<HostArray> run(const Graph& graph, std::span<const Tensor> outputs,
                             std::span<const HostArray> inputs = {}) {
    return runtime::evaluate(pjrt::cpu_client(), graph, outputs, inputs);
  }
};

TEST_F(NnTest, AttentionEqualsTheSumWrittenOut) {
  const int64_t s = 3;
  const int64_t t = 4;
  const int64_t n = 2;
  const int64_t d = 8;
  const std::vector<HostArray> in{normal({1, s, n, d}, 1), normal({1, t, n, d}, 2),
                                  normal({1, t, n, d}, 3)};
  Graph graph;
  std::vector<Tensor> x;
  for (const HostArray& value : in) {
    x.push_back(graph.input(value.shape));
  }
  const HostArray got = run(graph, std::vector<Tensor>{attention(x[0], x[1], x[2], {})}, in)[0];
  const auto at = [&](int which, int64_t i, int64_t h, int64_t c) {
    return static_cast<double>(in[which].as<float>()[(i * n + h) * d + c]);
  };
  for (int64_t i = 0; i < s; ++i) {
    for (int64_t h = 0; h < n; ++h) {
      std::vector<double> p(t);
      double total = 0.0;
      for (int64_t j = 0; j < t; ++j) {
        double score = 0.0;
        for (int64_t c = 0; c < d; ++c) {
          score += at(0, i, h, c) * at(1, j, h, c);
        }
        total += p[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
      }
      for (int64_t c = 0; c < d; ++c) {
        double want = 0.0;
        for (int64_t j = 0; j < t; ++j) {
          want += p[j] / total * at(2, j, h, c);
        }
        EXPECT_NEAR(got.as<float>()[(i * n + h) * d + c], want, 1e-5);  // f32 sums of four terms
      }
    }
  }
}

// Params::low_rank opens the parameters; a Binder that has them adds their product.
TEST_F(NnTest, LinearAddsTheLowRankProduct) {
  SpecCollector collector([](const std::string&) { return DType::F32; }, {{"proj", 3}});
  const Linear recorded(Params(collector, "proj"), 5, 4, {.out_axis = "mlp", .in_axis = "embed"});
  const std::vector<ParamSpec> specs = collector.take();
  ASSERT_EQ(specs.size(), 5U);
  EXPECT_EQ(specs[2].name, "proj.lora_A.weight");
  EXPECT_EQ(specs[2].axes, (std::vector<std::string>{"", "embed"}));
  EXPECT_EQ(specs[3].name, "proj.lora_B.weight");
  EXPECT_EQ(specs[3].axes, (std::vector<std::string>{"mlp", ""}));
  EXPECT_EQ(specs[4].name, "proj.lora_scale");
  EXPECT_FALSE(specs[1].is_low_rank());
  EXPECT_TRUE(specs[2].is_low_rank());

  Graph graph;
  std::vector<HostArray> in;
  std::vector<Tensor> params;
  for (const ParamSpec& spec : specs) {
    in.push_back(normal(spec.shape.dims, in.size() + 1));
    params.push_back(graph.input(spec.shape));
  }
  in.push_back(normal({2, 5}, 9));
  const Tensor x = graph.input({DType::F32, {2, 5}});
  Binder binder(specs, params);
  const Tensor y = Linear(Params(binder, "proj"), 5, 4, {})(x, Precision::HIGHEST);
  const Tensor merged = linear(x,
                               params[0] + dot_general(params[3] * params[4], params[2],
                                                       {.lhs_contract = {1}, .rhs_contract = {0}},
                                                       Precision::HIGHEST, DType::F32),
                               params[1], Precision::HIGHEST);

  const std::vector<HostArray> got = run(graph, std::vector<Tensor>{y, merged}, in);
  for (size_t i = 0; i < got[0].as<float>().size(); ++i) {
    // Sums of 20 products of order one, below 32 in size.
    EXPECT_NEAR(got[0].as<float>()[i], got[1].as<float>()[i], 20 * 32 * 6e-8);
  }
}

// The rounding of e^x does not affect its gradient rule.
TEST_F(NnTest, AttentionInHalfPrecisionStaysNearF32WithItsGradients) {
  const std::vector<HostArray> in{normal({1, 6, 2, 8}, 1), normal({1, 7, 2, 8}, 2),
                                  normal({1, 7, 2, 8}, 3), normal({1, 6, 2, 8}, 4)};
  const auto values = [&](DType dtype) {
    Graph graph;
    std::vector<Tensor> x;
    for (const HostArray& value : in) {
      x.push_back(graph.input(value.shape));
    }
    const Tensor y = convert(
        attention(convert(x[0], dtype), convert(x[1], dtype), convert(x[2], dtype), {.scale = 0.5}),
        DType::F32);
    std::vector<Tensor> outputs = gradients(sum(y * x[3]), std::vector{x[0], x[1], x[2]});
    outputs.push_back(y);
    return run(graph, outputs, in);
  };
  const std::vector<HostArray> full = values(DType::F32);
  const std::vector<HostArray> half = values(DType::BF16);
  for (size_t i = 0; i < full.size(); ++i) {
    for (size_t j = 0; j < full[i].as<float>().size(); ++j) {
      // Values of order one, a handful of roundings of 2^-9 each.
      EXPECT_NEAR(half[i].as<float>()[j], full[i].as<float>()[j], 3e-2) << i << " " << j;
    }
  }
}

// Angles of token (3, 5, 7) with heads of 128: published values for frame, row and column.
TEST_F(NnTest, RopeTurnsByThePublishedAngles) {
  Graph graph;
  const Rope rope = rope_3d(graph, {4, 6, 8}, 128);
  const std::vector<HostArray> got = run(graph, std::vector<Tensor>{rope.cos, rope.sin});
  const size_t token = (3 * 6 + 5) * 8 + 7;
  const std::vector<std::pair<size_t, double>> angles{
      {0, 3.0},        {1, 1.97379967}, {21, 4.5597e-4},  {22, 5.0},       {23, 3.22473339},
      {42, 7.7526e-4}, {43, 7.0},       {44, 4.51462674}, {63, 1.08536e-3}};
  for (const auto& [index, angle] : angles) {
    SCOPED_TRACE(index);
    const size_t at = (token * 64 + index) * 2;
    EXPECT_NEAR(got[0].as<float>()[at], std::cos(angle), 2e-7);  // the angles have nine digits
    EXPECT_NEAR(got[0].as<float>()[at + 1], std::cos(angle), 2e-7);
    EXPECT_NEAR(got[1].as<float>()[at], -std::sin(angle), 2e-7);
    EXPECT_NEAR(got[1].as<float>()[at + 1], std::sin(angle), 2e-7);
  }
}

// RIFLEx (arXiv:2502.15894): one frequency of the frame axis turns by 0.9 of a circle over the
// video, whatever its length; all other angles stay.
TEST_F(NnTest, RiflexLowersOneFrequencyOfTheFrameAxis) {
  Graph graph;
  const Rope plain = rope_3d(graph, {40, 1, 2}, 128);
  const Rope longer = rope_3d(graph, {40, 1, 2}, 128, 6);
  const std::vector<HostArray> got = run(graph, std::vector<Tensor>{plain.cos, longer.cos});
  for (size_t token = 0; token < 80; ++token) {
    for (size_t pair = 0; pair < 64; ++pair) {
      const size_t at = (token * 64 + pair) * 2;
      const double frame = static_cast<double>(token / 2);
      const double want =
          pair == 5 ? std::cos(frame * 0.9 * 2 * std::numbers::pi / 40) : got[0].as<float>()[at];
      ASSERT_NEAR(got[1].as<float>()[at], want, 1e-6) << token << " " << pair;
    }
  }
  EXPECT_THAT(([&] {
                rope_3d(graph, {40, 1, 2}, 128, 23);
              }),
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "riflex_frequency is 23, expected 0 (off) to 22, the frequencies of the frame")));
}

TEST_F(NnTest, RotationKeepsLengthsAndTurnsPairs) {
  Graph graph;
  const HostArray x = normal({1, 6, 2, 12}, 5);
  const Tensor in = graph.input(x.shape);
  const Rope rope = rope_3d(graph, {1, 2, 3}, 12);
  const HostArray y = run(graph, std::vector<Tensor>{rotate(in, rope)}, std::vector{x})[0];
  const HostArray c = run(graph, std::vector<Tensor>{rope.cos}, std::vector{x})[0];
  const HostArray s = run(graph, std::vector<Tensor>{rope.sin}, std::vector{x})[0];
  for (int64_t token = 0; token < 6; ++token) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t m = 0; m < 6; ++m) {
        const int64_t i = (token * 2 + h) * 12 + 2 * m;
        const double cosine = c.as<float>()[(token * 6 + m) * 2];
        const double sine = s.as<float>()[(token * 6 + m) * 2 + 1];
        const double x0 = x.as<float>()[i];
        const double x1 = x.as<float>()[i + 1];
        EXPECT_NEAR(y.as<float>()[i], x0 * cosine - x1 * sine, 1e-6);
        EXPECT_NEAR(y.as<float>()[i + 1], x0 * sine + x1 * cosine, 1e-6);
      }
    }
  }
}

TEST_F(NnTest, SinusoidHasThePublishedValues) {
  Graph graph;
  const Tensor t = constant(graph, 999.0, Shape{DType::S64, {1}});
  const HostArray got = run(graph, std::vector<Tensor>{sinusoid(t, 256)})[0];
  const std::vector<std::pair<size_t, double>> values{
      {0, 0.99965},     {1, 0.963782},   {2, -0.398992}, {127, 0.994243},
      {128, -0.026461}, {129, -0.26669}, {255, 0.107147}};
  for (const auto& [index, value] : values) {
    // Six digits are published, and half an ulp of an angle of 999 is 3e-5.
    EXPECT_NEAR(got.as<float>()[index], value, 5e-5) << index;
  }
}

// The size of norms in a decoder of large pictures: a mean of a million values needs more than one
// long f32 sum.
TEST_F(NnTest, GroupsOfAMillionValuesAreNormedExactly) {
  constexpr int64_t kSide = 512;
  constexpr int64_t kValues = 4 * kSide * kSide;
  std::vector<float> values;
  double sum = 0.0;
  double squares = 0.0;
  for (int64_t i = 0; i < kValues; ++i) {
    const double x = 10.0 + std::sin(static_cast<double>(i) * 0.7);
    values.push_back(static_cast<float>(x));
    sum += values.back();
    squares += static_cast<double>(values.back()) * values.back();
  }
  const double mean = sum / kValues;
  const double deviation = std::sqrt(squares / kValues - mean * mean);

  SpecCollector collector([](const std::string&) { return DType::F32; });
  const GroupNorm recorded(Params(collector, "norm"), 4, 1, 0.0);
  const std::vector<ParamSpec> specs = collector.take();
  Graph graph;
  const std::vector<HostArray> in{HostArray::f32({4}, std::vector<float>(4, 1.0F)),
                                  HostArray::f32({4}, std::vector<float>(4, 0.0F)),
                                  HostArray::f32({1, 4, kSide, kSide}, values)};
  const std::vector<Tensor> params{graph.input(specs[0].shape), graph.input(specs[1].shape)};
  Binder binder(specs, params);
  const Tensor y =
      GroupNorm(Params(binder, "norm"), 4, 1, 0.0)(graph.input({DType::F32, in[2].shape.dims}));
  const HostArray got = run(graph, std::vector<Tensor>{y}, in)[0];
  double worst = 0.0;
  for (size_t i = 0; i < static_cast<size_t>(kValues); ++i) {
    worst = std::max(worst, std::abs(got.as<float>()[i] - (values[i] - mean) / deviation));
  }
  // Half a unit of 10 in the mean and in the difference, for a deviation of 0.7.
  EXPECT_LE(worst, 2 * 0x1p-21 / deviation);
}

TEST_F(NnTest, DropoutDropsTheRateAndKeepsTheMean) {
  Graph graph;
  const std::vector<uint32_t> key{11, 12};
  const Tensor k = graph.input({DType::U32, {2}});
  const Tensor x = constant(graph, 1.0, {DType::F32, {100, 100}});
  const Dropout dropout(0.25, k);
  const std::vector<HostArray> got =
      run(graph, std::vector<Tensor>{dropout(x, "a"), dropout(x, "a"), dropout(x, "b")},
          std::vector{HostArray::from<uint32_t>(DType::U32, {2}, key)});
  int64_t dropped = 0;
  int64_t both = 0;
  for (size_t i = 0; i < 10000; ++i) {
    const float value = got[0].as<float>()[i];
    EXPECT_TRUE(value == 0.0F || std::abs(value - 4.0F / 3.0F) < 1e-6F);
    dropped += value == 0.0F ? 1 : 0;
    both += value == 0.0F && got[2].as<float>()[i] == 0.0F ? 1 : 0;
  }
  // Binomial: deviations 43 and 24; four of them.
  EXPECT_NEAR(static_cast<double>(dropped), 2500.0, 175.0);
  EXPECT_NEAR(static_cast<double>(both), 625.0, 100.0);
  EXPECT_EQ(got[0].bytes, got[1].bytes);
}

TEST_F(NnTest, ResizeTakesThePixelAtTheSamePartOfTheAxis) {
  const HostArray x = normal({1, 2, 3, 4}, 1);
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {3, 4}, {6, 8}, {5, 7}, {9, 4}, {4, 5}, {7, 11}, {2, 3}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << columns);
    Graph graph;
    const Tensor y = resize_nearest(graph.input(x.shape), rows, columns);
    const HostArray got = run(graph, std::vector{y}, std::vector{x})[0];
    HostArray expected(Shape{DType::F32, {1, 2, rows, columns}});
    for (int64_t i = 0; i < 2 * rows * columns; ++i) {
      const int64_t channel = i / (rows * columns);
      const int64_t row = i / columns % rows * 3 / rows;
      const int64_t column = i % columns * 4 / columns;
      expected.as<float>()[static_cast<size_t>(i)] =
          x.as<float>()[static_cast<size_t>((channel * 3 + row) * 4 + column)];
    }
    EXPECT_EQ(got.shape, expected.shape);
    EXPECT_EQ(got.bytes, expected.bytes);
  }
}

}  // namespace
}  // namespace kinema::nn
