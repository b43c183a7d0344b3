#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu_kernel.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/cpu/attention.h"
#include "kinema/nn/attention.h"

namespace kinema::kernels {
namespace {

struct Case {
  int64_t batch, queries, keys, heads, width;
  Dims bias = {};
  double scale = 0.3;
};

// More queries than one block, fewer, one; numbers of keys that are multiples of a vector and that
// are not; every way to broadcast a bias.
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
      {1, 150, 1300, 2, 24},  // several tiles of keys
      {1, 70, 700, 2, 16, {1, 2, 70, 700}},
      {2, 70, 530, 2, 16, {530}},
      {1, 1300, 600, 2, 16, {1, 2, 1300, 600}},  // several blocks of queries
  };
  return kCases;
}

std::vector<HostArray> arguments(const Case& c, DType dtype) {
  std::vector<HostArray> given{normal(dtype, {c.batch, c.queries, c.heads, c.width}, 1),
                               normal(dtype, {c.batch, c.keys, c.heads, c.width}, 2),
                               normal(dtype, {c.batch, c.keys, c.heads, c.width}, 3)};
  if (!c.bias.empty()) {
    given.push_back(normal(DType::F32, c.bias, 4));
    // The value that masks use.
    given.back().as<float>()[0] = -1e30F;
  }
  return given;
}

/// Attention's result, or the gradients of q, k and v.
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

class CpuAttention : public CpuKernel {
 protected:
  static EmitOptions with_kernel() {
    return with_kernels({.min_flops = 1e18, .min_attention_flops = 0});
  }
  void expect_equal(std::span<const Case> some, bool differentiate) {
    for (const Case& c : some) {
      SCOPED_TRACE(
          fmt::format("{} queries, {} keys, bias {}", c.queries, c.keys, to_string(c.bias)));
      const auto given = arguments(c, GetParam());
      Graph plain;
      Graph fast;
      std::vector<HostArray> wide;
      for (const HostArray& each : given) {
        wide.push_back(convert(each, DType::F32));
      }
      const auto expected = build(plain, c, wide, nn::AttentionKind::DOT_PRODUCT, differentiate);
      const auto outputs = build(fast, c, given, nn::AttentionKind::FLASH, differentiate);
      const std::string text = emit(fast, outputs, with_kernel());
      ASSERT_NE(text.find(kAttentionTarget), std::string::npos);
      ASSERT_EQ(text.find(kAttentionBackwardTarget) != std::string::npos,
                differentiate && c.bias.empty());
      const auto want = runtime::Program::compile(client(), plain, expected, {.kernels = false})
                            .run_on_host(wide);
      const auto got = runtime::Program::compile(client(), fast, outputs, {.emit = with_kernel()})
                           .run_on_host(given);
      for (size_t i = 0; i < want.size(); ++i) {
        const double bf16 = !differentiate ? 0x1p-8 : c.bias.empty() ? 0x1p-7 : 0x1p-6;
        const double units = differentiate ? 256 : 64;
        expect_near(convert(got[i], DType::F32), want[i],
                    GetParam() == DType::BF16 ? bf16 : 0x1p-24 * units);
      }
    }
  }
  // Weights and sums of up to 512 terms in another order, each within some units of 2^-24 of the
  // largest value; in bf16 weights and the result are rounded, each by at most 2^-9. Gradients also
  // read rounded results and differences and, without the kernel, rounded products. In f32 e^x of
  // scores of up to 17 loses as many units, and dy v^T (up to 340) minus its mean is only as exact
  // as these values: compared with f64 either form has errors of up to 2^-17.
  void expect_near(const HostArray& got, const HostArray& want, double unit) const {
    EXPECT_GT(largest(want), 0.1);
    EXPECT_LE(largest_difference(got, want), unit * largest(want));
  }
};

TEST_P(CpuAttention, EqualsTheScoresWrittenOut) { expect_equal(cases(), false); }

TEST_P(CpuAttention, HasTheGradientOfTheScoresWrittenOut) {
  // One tile, several tiles of keys and queries with remainders, one query, one key; with a bias
  // there is no kernel.
  const std::vector<Case> some{{2, 70, 30, 2, 16},
                               {1, 300, 530, 2, 24},
                               {1, 530, 300, 2, 64},
                               {1, 1, 300, 2, 40},
                               {1, 65, 2, 2, 8},
                               {2, 256, 512, 3, 128},
                               {1, 20, 50, 4, 24, {1, 4, 20, 50}}};
  expect_equal(some, true);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CpuAttention, ::testing::Values(DType::F32, DType::BF16), name_of);

// ---- The kernel alone ----------------------------------------------------------------------

HostArray run_alone(const AttentionPlan& plan, const std::vector<HostArray>& given, double scale,
                    int64_t threads) {
  HostArray y(given[0].shape);
  attention(plan, y.shape.dtype, scale, given[0].bytes.data(), given[1].bytes.data(),
            given[2].bytes.data(), nullptr, y.bytes.data(), nullptr, on_threads(threads));
  return y;
}

TEST_P(CpuAttention, GivesTheSameBitsWithAnyNumberOfThreads) {
  const Case c{2, 300, 77, 3, 16};
  const auto given = arguments(c, GetParam());
  const AttentionPlan plan{c.batch, c.queries, c.keys, c.heads, c.width};
  const HostArray one = run_alone(plan, given, c.scale, 1);
  EXPECT_TRUE(std::ranges::equal(one.bytes, run_alone(plan, given, c.scale, 3).bytes));
}

TEST_P(CpuAttention, GivesGradientsOfTheSameBitsWithAnyNumberOfThreads) {
  const Case c{2, 300, 530, 3, 16};
  const DType dtype = GetParam();
  const auto given = arguments(c, dtype);
  const HostArray dy = normal(dtype, given[0].shape.dims, 5);
  const HostArray sums = normal(DType::F32, {c.batch, c.heads, c.queries}, 6);
  const AttentionPlan plan{c.batch, c.queries, c.keys, c.heads, c.width};
  const auto gradients = [&](int64_t threads, DType out) {
    std::vector<HostArray> to;
    for (const HostArray& each : given) {
      to.emplace_back(Shape{out, each.shape.dims});
    }
    attention_backward(plan, dtype, out, c.scale,
                       {.q = given[0].bytes.data(),
                        .k = given[1].bytes.data(),
                        .v = given[2].bytes.data(),
                        .lse = sums.as<float>().data(),
                        .delta = sums.as<float>().data(),
                        .dy = dy.bytes.data(),
                        .dq = to[0].bytes.data(),
                        .dk = to[1].bytes.data(),
                        .dv = to[2].bytes.data()},
                       on_threads(threads));
    return to;
  };
  const auto one = gradients(1, dtype);
  const auto three = gradients(3, dtype);
  const auto wide = gradients(2, DType::F32);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(one[i].bytes, three[i].bytes));
    EXPECT_TRUE(std::ranges::equal(one[i].bytes, convert(wide[i], dtype).bytes));
  }
}

TEST_P(CpuAttention, GivesDistantScoresWeightZeroAndKeepsNaN) {
  const AttentionPlan plan{1, 2, 3, 1, 2};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<HostArray> given{
      convert(HostArray::f32({1, 2, 1, 2}, std::vector<float>{100, 0, nan, 0}), GetParam()),
      convert(HostArray::f32({1, 3, 1, 2}, std::vector<float>{1, 0, 0, 0, 1, 0}), GetParam()),
      convert(HostArray::f32({1, 3, 1, 2}, std::vector<float>{2, 4, 1000, 1000, 4, 2}),
              GetParam())};
  const HostArray y = convert(run_alone(plan, given, 1.0, 1), DType::F32);
  // The middle key's weight is e^-100: the result is the mean of the others.
  EXPECT_EQ(y.as<float>()[0], 3.0F);
  EXPECT_EQ(y.as<float>()[1], 3.0F);
  EXPECT_TRUE(std::isnan(y.as<float>()[2]) && std::isnan(y.as<float>()[3]));
}

// Scores that grow from tile to tile, and tiles in which every key is masked.
TEST_P(CpuAttention, IgnoresTilesOfMaskedKeys) {
  constexpr int64_t kMasked = 1100;
  constexpr int64_t kKeys = 2300;
  std::vector<HostArray> given = arguments({1, 5, kKeys, 1, 16}, GetParam());
  std::vector<float> keys(kKeys * 16);
  for (size_t i = 0; i < keys.size(); ++i) {
    keys[i] = static_cast<float>(i % 16) * 0.01F + static_cast<float>(i) * 1e-4F;
  }
  given[1] = convert(HostArray::f32(given[1].shape.dims, keys), GetParam());
  std::vector<float> mask(kKeys, 0.0F);
  std::fill_n(mask.begin(), kMasked, -std::numeric_limits<float>::infinity());
  AttentionPlan plan{1, 5, kKeys, 1, 16, {0, 0, 0, 1}};
  HostArray y(given[0].shape);
  attention(plan, GetParam(), 0.3, given[0].bytes.data(), given[1].bytes.data(),
            given[2].bytes.data(), mask.data(), y.bytes.data(), nullptr, on_threads(1));

  plan.keys = kKeys - kMasked;
  plan.bias = {};
  HostArray expected(y.shape);
  const size_t skipped = static_cast<size_t>(kMasked * 16 * byte_size(GetParam()));
  attention(plan, GetParam(), 0.3, given[0].bytes.data(), given[1].bytes.data() + skipped,
            given[2].bytes.data() + skipped, nullptr, expected.bytes.data(), nullptr,
            on_threads(1));

  expect_near(convert(y, DType::F32), convert(expected, DType::F32), 0x1p-8);
}

TEST(AttentionPlan, SurvivesSerialization) {
  const AttentionPlan plan{1, 2, 3, 4, 5, {6, 7, 8, 9}};
  const auto words = to_words(plan);
  EXPECT_EQ(words, to_words(attention_from_words(words.data(), std::ssize(words))));
  EXPECT_THROW(attention_from_words(words.data(), 3), Error);
}

}  // namespace
}  // namespace kinema::kernels
