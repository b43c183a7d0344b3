#include "kinema/nn/quantized.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "arrays.h"
#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/scan.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/linear.h"
#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::nn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const pjrt::Client& client() {
  static const pjrt::Client opened = pjrt::cpu_client();
  return opened;
}

std::vector<HostArray> run(const Graph& graph, const std::vector<Tensor>& outputs,
                           const std::vector<HostArray>& inputs) {
  return runtime::Program::compile(client(), graph, outputs, {}).run_on_host(inputs);
}

std::vector<double> values(const HostArray& x) {
  if (is_integer(x.shape.dtype)) {
    const HostArray wide = convert(x, DType::S64);
    return {wide.as<int64_t>().begin(), wide.as<int64_t>().end()};
  }
  const HostArray wide = convert(x, DType::F64);
  return {wide.as<double>().begin(), wide.as<double>().end()};
}

TEST(Calibration, IsReadAsQwixWritesIt) {
  using Method = Calibration::Method;
  EXPECT_EQ(calibration("absmax"), Calibration{});
  EXPECT_EQ(calibration("AbsMax, 0.5"), (Calibration{Method::ABSMAX, 0.5}));
  EXPECT_EQ(calibration("rms,3"), (Calibration{Method::RMS, 3.0}));
  EXPECT_EQ(calibration("fixed,2"), (Calibration{Method::FIXED, 2.0}));
  EXPECT_EQ(calibration("fixed,-224,224"), (Calibration{Method::FIXED, 224.0}));
  EXPECT_FALSE(calibration("absmax,1").clips());
  EXPECT_TRUE(calibration("absmax,0.9").clips());
  EXPECT_TRUE(calibration("rms,9").clips());
}

TEST(Calibration, NamesUnsupportedMethods) {
  EXPECT_THAT([] { calibration("minmax"); }, ThrowsMessage<Error>(HasSubstr("zero points")));
  EXPECT_THAT([] { calibration("minmax,0.9"); }, ThrowsMessage<Error>(HasSubstr("zero points")));
  EXPECT_THAT([] { calibration("fixed,-1,2"); }, ThrowsMessage<Error>(HasSubstr("zero points")));
  for (const char* text : {"", "absmin", "rms", "absmax,x", "absmax,0", "absmax,1,2", "fixed",
                           "fixed,0", "fixed,-1,1,1", "rms,nan", "rms,inf", "absmax,", "rms,-1"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT([&] { calibration(text); }, ThrowsMessage<Error>(HasSubstr("[quantization]")));
  }
}

// Scales are powers of two, so that every step is exact.
TEST(Quantize, RoundsToEvenWithinTheRangeOfTheCodes) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {2, 4}});
  const Codes s8 = quantize(x, DType::S8, {1}, {});
  const Codes f8 = quantize(x, DType::F8E4M3FN, {}, {Calibration::Method::FIXED, 448.0});
  const std::vector<HostArray> results =
      run(graph, {s8.values, s8.scale, f8.values, f8.scale, dequantize(f8)},
          {HostArray::f32(
              {2, 4}, std::vector{127.5F, 0.5F, 1.5F, -2.5F, 500.0F, -0.0F, 17.0F, -255.0F * 2})});
  EXPECT_EQ(values(results[0]),
            (std::vector<double>{127, 0, 2, -2, 125, 0, 4, -128}));  // 127.5 -> 128 saturates
  EXPECT_EQ(values(results[1]), (std::vector<double>{1.0, 4.0}));
  // 3 bits after the leading one: 17 is halfway between 16 and 18; 500 is clamped.
  const std::vector<double> codes{128, 0.5, 1.5, -2.5, 448, 0, 16, -448};
  EXPECT_EQ(values(results[2]), codes);
  EXPECT_EQ(values(results[3]), std::vector<double>{1.0});
  EXPECT_EQ(values(results[4]), codes);
}

TEST(Quantize, GivesZerosTheScaleOne) {
  Graph graph;
  const Tensor x = graph.input({DType::BF16, {3, 2}});
  const Codes codes = quantize(x, DType::S8, {1}, {});
  const auto results =
      run(graph, {codes.values, codes.scale}, {HostArray(Shape{DType::BF16, {3, 2}})});
  EXPECT_EQ(values(results[0]), std::vector<double>(6, 0.0));
  EXPECT_EQ(values(results[1]), std::vector<double>(3, 1.0));
}

double relative_difference(const HostArray& a, const HostArray& b) {
  const std::vector<double> x = values(a);
  const std::vector<double> y = values(b);
  double difference = 0.0;
  double largest = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    difference = std::max(difference, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(y[i]));
  }
  return difference / largest;
}

/// A product with batch axes on both sides, as in attention: [b, s, n, d] and [b, t, n, d].
struct Pair {
  Graph graph;
  Tensor a = graph.input({DType::F32, {2, 5, 3, 8}});
  Tensor b = graph.input({DType::F32, {2, 7, 3, 8}});
  Tensor dy = graph.input({DType::F32, {2, 3, 5, 7}});
  DotDims dims{.lhs_contract = {3}, .rhs_contract = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}};
  std::vector<HostArray> inputs{normal({2, 5, 3, 8}, 1), normal({2, 7, 3, 8}, 2),
                                normal({2, 3, 5, 7}, 3)};
};

class EveryMode : public testing::TestWithParam<Quantization::Mode> {};

// The same formulas as products of floats with the decoded values. Sums of eight products and
// factors in two orders: 2^-24 of the largest, times their number.
TEST_P(EveryMode, IsTheProductOfTheDequantizedCodes) {
  Pair p;
  const QuantizedProduct how = Quantization{.mode = GetParam()}.product();
  const std::vector<int64_t> axes =
      how.per_tensor ? std::vector<int64_t>() : std::vector<int64_t>{3};
  const Tensor y = quantized_dot(p.a, p.b, p.dims, how, Precision::HIGHEST);
  const std::vector<Tensor> grads =
      pull_back(std::vector{y}, std::vector{p.dy}, std::vector{p.a, p.b});

  const Codes a = quantize(p.a, how.codes, axes, {});
  const Codes b = quantize(p.b, how.codes, axes, {});
  const Tensor wide_a = dequantize(a);
  const Tensor wide_b = dequantize(b);
  const Tensor plain = dot_general(wide_a, wide_b, p.dims, Precision::HIGHEST);
  Tensor g_for_a = p.dy;
  Tensor g_for_b = p.dy;
  Tensor other_a = wide_a;
  Tensor other_b = wide_b;
  if (how.gradient_codes) {
    g_for_a = dequantize(quantize(p.dy * reshape(b.scale, {}), *how.gradient_codes, {}, {}));
    g_for_b = dequantize(quantize(p.dy * reshape(a.scale, {}), *how.gradient_codes, {}, {}));
    other_a = convert(a.values, DType::F32);
    other_b = convert(b.values, DType::F32);
  }
  const Tensor da =
      dot_gradient_of_a(g_for_a, p.a.shape(), other_b, p.dims, Precision::HIGHEST, DType::F32);
  const Tensor db =
      dot_gradient_of_b(g_for_b, other_a, p.b.shape(), p.dims, Precision::HIGHEST, DType::F32);
  const auto results = run(p.graph, {y, plain, grads[0], da, grads[1], db}, p.inputs);
  for (size_t i = 0; i < results.size(); i += 2) {
    EXPECT_LT(relative_difference(results[i], results[i + 1]), 16 * 0x1p-24) << "result " << i / 2;
  }
}

// Half an 8-bit step is 1/255 of the largest value of a row, on average a third of it, for two
// operands; e4m3 has an error of at most 2^-4 of each value.
TEST_P(EveryMode, IsNearTheProductOfTheFloats) {
  Pair p;
  const Tensor y = quantized_dot(p.a, p.b, p.dims, Quantization{.mode = GetParam()}.product(),
                                 Precision::HIGHEST);
  const auto results =
      run(p.graph, {y, dot_general(p.a, p.b, p.dims, Precision::HIGHEST)}, p.inputs);
  const double difference = relative_difference(results[0], results[1]);
  EXPECT_LT(difference, GetParam() == Quantization::Mode::INT8 ? 0.02 : 0.12);
  EXPECT_GT(difference, 1e-4) << "nothing was rounded";
}

TEST_P(EveryMode, EmitsQuantizedProducts) {
  Pair p;
  const bool full = GetParam() == Quantization::Mode::FP8_FULL;
  const Tensor y = quantized_dot(p.a, p.b, p.dims, Quantization{.mode = GetParam()}.product(),
                                 Precision::DEFAULT);
  const std::vector<Tensor> grads =
      pull_back(std::vector{y}, std::vector{p.dy}, std::vector{p.a, p.b});
  const std::string text = emit(p.graph, std::vector{y, grads[0], grads[1]});
  if (GetParam() == Quantization::Mode::INT8) {
    EXPECT_THAT(text, HasSubstr("(tensor<2x5x3x8xi8>, tensor<2x7x3x8xi8>) -> "
                                "(tensor<2x3x5x7xi32>)"));
  } else {
    EXPECT_THAT(text, HasSubstr("(tensor<2x5x3x8xf8E4M3FN>, tensor<2x7x3x8xf8E4M3FN>) -> "
                                "(tensor<2x3x5x7xf32>)"));
  }
  EXPECT_EQ(text.find("(tensor<2x3x5x7xf8E5M2>, tensor<2x7x3x8xf8E4M3FN>)") != std::string::npos,
            full);
  EXPECT_EQ(text.find("optimization_barrier") != std::string::npos,
            GetParam() != Quantization::Mode::INT8)
      << "XLA drops conversions to float8 and back";
}

std::string name_of(const testing::TestParamInfo<Quantization::Mode>& mode) {
  return mode.param == Quantization::Mode::INT8  ? "int8"
         : mode.param == Quantization::Mode::FP8 ? "fp8"
                                                 : "fp8_full";
}

INSTANTIATE_TEST_SUITE_P(Modes, EveryMode,
                         testing::Values(Quantization::Mode::INT8, Quantization::Mode::FP8,
                                         Quantization::Mode::FP8_FULL),
                         name_of);

TEST(QuantizedLinear, PassesNothingBackToValuesBeyondTheLimit) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {1, 3}});
  const Tensor w = graph.input({DType::F32, {1, 3}});
  QuantizedProduct how = Quantization{.mode = Quantization::Mode::FP8_FULL}.product();
  how.activation = {Calibration::Method::FIXED, 2.0};
  const Tensor y = quantized_linear(x, w, how, Precision::HIGHEST);
  const std::vector<Tensor> grads = gradients(sum(y), std::vector{x, w});
  const auto results = run(graph, {grads[0], grads[1]},
                           {HostArray::f32({1, 3}, std::vector{2.0F, -2.5F, 1.0F}),
                            HostArray::f32({1, 3}, std::vector{1.0F, 1.0F, 1.0F})});
  // The limit itself is in range; codes of 1.0, the largest weight, and of the sum's gradient are
  // exact up to the rounding of scales.
  const std::vector<double> dx = values(results[0]);
  EXPECT_NEAR(dx[0], 1.0, 1e-6);
  EXPECT_EQ(dx[1], 0.0);
  EXPECT_NEAR(dx[2], 1.0, 1e-6);
  // The weight's gradient uses the clamped value.
  EXPECT_NEAR(values(results[1])[1], -2.0, 1e-5);
}

TEST(QuantizedLinear, AddsLowRankWithoutQuantizingIt) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {4, 16}});
  const Tensor w = graph.input({DType::F32, {8, 16}});
  const Tensor b = graph.input({DType::F32, {8}});
  const LinearAdapter extra{graph.input({DType::F32, {2, 16}}), graph.input({DType::F32, {8, 2}}),
                            graph.input({DType::F32, {2}})};
  const QuantizedProduct how = Quantization{.mode = Quantization::Mode::INT8}.product();
  const Tensor with = linear(x, w, b, Precision::HIGHEST, extra, how);
  const Tensor without = linear(x, w, b, Precision::HIGHEST, {}, how);
  const Tensor added = extra(without, x, w, {}, Precision::HIGHEST);
  const auto results = run(graph, {with, added},
                           {normal({4, 16}, 1), normal({8, 16}, 2), normal({8}, 3),
                            normal({2, 16}, 4), normal({8, 2}, 5), normal({2}, 6)});
  EXPECT_LT(relative_difference(results[0], results[1]), 4 * 0x1p-24);
}

// A policy that keeps products of weights keeps this one: the program computes its sums once.
TEST(QuantizedLinear, IsAProductToRematPolicies) {
  const auto products = [](RematPolicy policy) {
    Graph graph;
    const Tensor x = graph.input({DType::F32, {4, 16}});
    const Tensor w = graph.input({DType::F32, {16, 16}});
    const QuantizedProduct how = Quantization{.mode = Quantization::Mode::INT8}.product();
    const Tensor y = checkpoint({x, w}, policy, [&](std::span<const Tensor> in) {
      return std::vector{exp(quantized_linear(in[0], in[1], how, Precision::DEFAULT))};
    })[0];
    const Tensor loss = sum(y);
    std::vector<Tensor> outputs = gradients(loss, std::vector{x, w});
    outputs.push_back(loss);
    const std::string text = emit(graph, outputs);
    const std::string result = "-> (tensor<4x16xi32>)";
    size_t count = 0;
    for (size_t at = text.find(result); at != std::string::npos; at = text.find(result, at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(products({.kind = RematPolicy::Kind::MATMUL_WITHOUT_BATCH}), 1U);
  EXPECT_EQ(products({.kind = RematPolicy::Kind::FULL}), 2U);
}

TEST(QuantizedAttention, ScalesTheScoresAfterTheirProduct) {
  Graph graph;
  const Tensor q = graph.input({DType::F32, {1, 4, 2, 8}});
  const Tensor k = graph.input({DType::F32, {1, 6, 2, 8}});
  const Tensor v = graph.input({DType::F32, {1, 6, 2, 8}});
  QuantizedProduct how = Quantization{.mode = Quantization::Mode::FP8_FULL}.product();
  how.activation = {Calibration::Method::FIXED, 1.0};
  const auto with = [&](bool split_heads) {
    return attention(
        q, k, v, {.precision = Precision::HIGHEST, .split_heads = split_heads, .quantized = how});
  };
  // Codes of q between -1 and 1 differ from those of q / sqrt(8).
  const Tensor scaled =
      attention(q * (1.0 / std::sqrt(8.0)), k, v,
                {.precision = Precision::HIGHEST, .scale = 1.0, .quantized = how});
  const auto results =
      run(graph, {with(true), with(false), scaled},
          {normal({1, 4, 2, 8}, 1), normal({1, 6, 2, 8}, 2), normal({1, 6, 2, 8}, 3)});
  EXPECT_LT(relative_difference(results[1], results[0]), 1e-6);
  EXPECT_GT(relative_difference(results[2], results[0]), 1e-3);
}

}  // namespace
}  // namespace kinema::nn
