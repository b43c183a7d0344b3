#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "core/host_array.h"
#include "core/threefry.h"
#include "graph/autodiff.h"
#include "graph/emit.h"
#include "graph/ops.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/lowering.h"
#include "nn/attention.h"
#include "pjrt/cpu_plugin.h"
#include "runtime/program.h"

namespace kinema::kernels {
namespace {

HostArray random_array(DType dtype, Dims dims, uint64_t seed) {
  HostArray x(Shape{DType::F32, std::move(dims)});
  RandomStream stream(random_key(seed, "cpu_attention_test"));
  for (float& value : x.as<float>()) {
    value = stream.normal();
  }
  return convert(x, dtype);
}

struct Case {
  int64_t batch, queries, keys, heads, width;
  Dims bias = {};
  double scale = 0.3;
};

// More queries than are worked on at once, fewer, one; keys that fill vectors and that do not;
// every way in which a bias may repeat.
const std::vector<Case>& cases() {
  static const std::vector<Case> kCases{
      {2, 300, 77, 3, 16},
      {1, 1, 300, 2, 40},
      {1, 65, 1, 2, 8},
      {2, 70, 50, 4, 24, {2, 4, 70, 50}},
      {2, 70, 50, 4, 24, {1, 4, 70, 50}, 1.0},
      {2, 70, 50, 4, 24, {2, 1, 1, 50}},
      {2, 70, 50, 4, 24, {1, 4, 70, 1}},
      {2, 70, 50, 4, 24, {50}},
  };
  return kCases;
}

std::vector<HostArray> arguments(const Case& c, DType dtype) {
  std::vector<HostArray> given{random_array(dtype, {c.batch, c.queries, c.heads, c.width}, 1),
                               random_array(dtype, {c.batch, c.keys, c.heads, c.width}, 2),
                               random_array(dtype, {c.batch, c.keys, c.heads, c.width}, 3)};
  if (!c.bias.empty()) {
    given.push_back(random_array(DType::F32, c.bias, 4));
    // As masks are.
    given.back().as<float>()[0] = -1e30F;
  }
  return given;
}

/// Attention's result, or its gradients for q, k and v.
std::vector<Tensor> build(Graph& graph, const Case& c, std::span<const HostArray> given,
                          nn::AttentionKind kind, bool differentiate) {
  std::vector<Tensor> x;
  for (const HostArray& each : given) {
    x.push_back(graph.input(each.shape));
  }
  const Tensor y = nn::attention(
      x[0], x[1], x[2], {.kind = kind, .scale = c.scale, .bias = x.size() > 3 ? x[3] : Tensor()});
  if (!differentiate) {
    return {y};
  }
  return gradients(sum(square(convert(y, DType::F32))), std::span<const Tensor>(x).first(3));
}

class CpuAttention : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!has_fast_product(GetParam())) {
      GTEST_SKIP() << "this processor has no fast product of " << to_string(GetParam());
    }
    register_cpu_kernels(client().plugin());
  }
  static const pjrt::Client& client() {
    static const pjrt::Client kClient = pjrt::cpu_client();
    return kClient;
  }
  static EmitOptions with_kernel() {
    EmitOptions options;
    options.lowering = cpu_lowering({.min_flops = 1e18, .min_attention_flops = 0});
    return options;
  }
  void expect_equal(std::span<const Case> some, bool differentiate) {
    for (const Case& c : some) {
      SCOPED_TRACE(
          fmt::format("{} queries, {} keys, bias {}", c.queries, c.keys, to_string(c.bias)));
      const auto given = arguments(c, GetParam());
      Graph plain;
      Graph fast;
      const auto expected = build(plain, c, given, nn::AttentionKind::DOT_PRODUCT, differentiate);
      const auto outputs = build(fast, c, given, nn::AttentionKind::FLASH, differentiate);
      if (!differentiate) {
        ASSERT_NE(emit(fast, outputs, with_kernel()).find(kAttentionTarget), std::string::npos);
      }
      const auto want = runtime::Program::compile(client(), plain, expected, {.kernels = false})
                            .run_on_host(given);
      const auto got = runtime::Program::compile(client(), fast, outputs, {.emit = with_kernel()})
                           .run_on_host(given);
      for (size_t i = 0; i < want.size(); ++i) {
        expect_near(convert(got[i], DType::F32), convert(want[i], DType::F32), differentiate);
      }
    }
  }
  // Weights and sums of up to 300 terms in another order, each within some units of 2^-24 of the
  // largest value; in bf16 a rounded weight, and the result, may be the neighbouring value.
  // Gradients also read rounded results and rounded differences of the scores: four such values.
  void expect_near(const HostArray& got, const HostArray& want, bool differentiate) const {
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < want.as<float>().size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(want.as<float>()[i])));
      difference = std::max(difference, std::abs(static_cast<double>(want.as<float>()[i]) -
                                                 static_cast<double>(got.as<float>()[i])));
    }
    EXPECT_GT(largest, 0.1);
    const double bf16 = differentiate ? 0x1p-6 : 0x1p-7;
    EXPECT_LE(difference, largest * (GetParam() == DType::BF16 ? bf16 : 0x1p-24 * 64));
  }
};

TEST_P(CpuAttention, EqualsTheScoresWrittenOut) { expect_equal(cases(), false); }

TEST_P(CpuAttention, HasTheGradientOfTheScoresWrittenOut) {
  const std::vector<Case> some{{2, 70, 30, 2, 16}, {1, 20, 50, 4, 24, {1, 4, 20, 50}}};
  expect_equal(some, true);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CpuAttention, ::testing::Values(DType::F32, DType::BF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

// ---- The kernel alone ----------------------------------------------------------------------

HostArray run_alone(const AttentionPlan& plan, const std::vector<HostArray>& given, double scale,
                    int64_t threads) {
  HostArray y(given[0].shape);
  attention(plan, y.shape.dtype, scale, given[0].bytes.data(), given[1].bytes.data(),
            given[2].bytes.data(), nullptr, y.bytes.data(),
            [&](int64_t count, const std::function<void(int64_t)>& task) {
              std::vector<std::jthread> helpers;
              for (int64_t t = 0; t < threads; ++t) {
                helpers.emplace_back([&, t] {
                  for (int64_t i = t; i < count; i += threads) task(i);
                });
              }
            });
  return y;
}

TEST_P(CpuAttention, GivesTheSameBitsWithAnyNumberOfThreads) {
  const Case c{2, 300, 77, 3, 16};
  const auto given = arguments(c, GetParam());
  const AttentionPlan plan{c.batch, c.queries, c.keys, c.heads, c.width};
  const HostArray one = run_alone(plan, given, c.scale, 1);
  EXPECT_TRUE(std::ranges::equal(one.bytes, run_alone(plan, given, c.scale, 3).bytes));
}

TEST_P(CpuAttention, WeighsTheFarthestScoresAsZeroAndKeepsWhatIsNotANumber) {
  const AttentionPlan plan{1, 2, 3, 1, 2};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<HostArray> given{
      convert(HostArray::f32({1, 2, 1, 2}, std::vector<float>{100, 0, nan, 0}), GetParam()),
      convert(HostArray::f32({1, 3, 1, 2}, std::vector<float>{1, 0, 0, 0, 1, 0}), GetParam()),
      convert(HostArray::f32({1, 3, 1, 2}, std::vector<float>{2, 4, 1000, 1000, 4, 2}),
              GetParam())};
  const HostArray y = convert(run_alone(plan, given, 1.0, 1), DType::F32);
  // The middle key is e^-100 away: the mean of the others.
  EXPECT_EQ(y.as<float>()[0], 3.0F);
  EXPECT_EQ(y.as<float>()[1], 3.0F);
  EXPECT_TRUE(std::isnan(y.as<float>()[2]) && std::isnan(y.as<float>()[3]));
}

TEST(AttentionPlan, SurvivesTheWayThroughAProgram) {
  const AttentionPlan plan{1, 2, 3, 4, 5, {6, 7, 8, 9}};
  const auto words = to_words(plan);
  EXPECT_EQ(words, to_words(attention_from_words(words.data(), std::ssize(words))));
  EXPECT_THROW(attention_from_words(words.data(), 3), Error);
}

}  // namespace
}  // namespace kinema::kernels
