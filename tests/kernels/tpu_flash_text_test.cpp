#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "arrays.h"
#include "kernels/interpreter/mosaic.h"
#include "kinema/core/error.h"
#include "kinema/kernels/tpu/base64.h"
#include "kinema/kernels/tpu/cost.h"
#include "kinema/kernels/tpu/flash.h"

/// The TPU kernels' texts, interpreted alone.
namespace kinema::kernels {
namespace {

/// A small kernel with every case: several blocks, several parts per block, masked keys.
FlashWork small_work() {
  return {.heads = 2,
          .queries = 256,
          .keys = 512,
          .width = 128,
          .dtype = DType::F32,
          .result = DType::F32,
          .scale = 0.1,
          .counted = 300,
          .block_q = 128,
          .block_kv = 256,
          .block_kv_compute = 128};
}

std::vector<HostArray> run(const FlashKernel& kernel, const std::string& text) {
  std::vector<HostArray> given;
  for (const Shape& shape : kernel.operands) {
    given.push_back(kinema::normal(shape.dims, given.size()));
  }
  return interpreter::run_mosaic(text, given, kernel.results);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

struct Damage {
  const char* what;
  std::string from, to;
};

// Each damage must give an error or other numbers.
TEST(TpuFlashText, ShowsEveryDamage) {
  const FlashKernel kernel = flash_forward(small_work());
  const std::vector<HostArray> right = run(kernel, kernel.text.text);
  const std::string fp32 = "precision = #tpu.contract_precision<fp32>, ";
  const std::vector<Damage> all{
      {"the block of keys that holds the border is skipped", "predicate = 4 : i64",
       "predicate = 3 : i64"},
      {"products of rounded operands", fp32, ""},
      {"another base", "math.exp2", "math.exp"},
      {"the smallest in place of the largest", "vector.kind<maximumf>", "vector.kind<minimumf>"},
      {"q k in place of q k^T", "dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>",
       "dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>"},
      {"scratch is carried along a parallel axis", "dimension_semantics<arbitrary>]",
       "dimension_semantics<parallel>]"},
      {"a block of keys at another place", "\"stable_mosaic.func.return\"(%arg0, %arg2, %0)",
       "\"stable_mosaic.func.return\"(%arg0, %arg1, %0)"},
      {"a result's block at another place", "sym_name = \"transform_3\"",
       "sym_name = \"transform_9\""},
      {"one step fewer", "iteration_bounds = array<i64: 2, 2, 2>",
       "iteration_bounds = array<i64: 2, 2, 1>"},
      {"a mask along the queries", "dimensions = array<i32: 1>", "dimensions = array<i32: 0>"},
      {"a subtraction for a sum", "arith.addf", "arith.subf"},
      {"a type that does not fit", "vector<128x1xf32>", "vector<1x128xf32>"},
      {"an attribute without which the compiler dies", "tpu.core_type = #tpu.core_type<tc>, ", ""},
  };
  ASSERT_GE(all.size(), 12U);
  for (const Damage& damage : all) {
    SCOPED_TRACE(damage.what);
    const std::string text = replaced(kernel.text.text, damage.from, damage.to);
    ASSERT_NE(text, kernel.text.text);
    double worst = INFINITY;
    try {
      const std::vector<HostArray> wrong = run(kernel, text);
      worst = std::max(largest_difference(wrong[0], right[0]) / largest(right[0]),
                       largest_difference(wrong[1], right[1]) / largest(right[1]));
    } catch (const Error&) {
      continue;
    }
    EXPECT_GT(worst, 1e-5);
  }
}

TEST(TpuFlashText, OfTheBackwardKernelsShowsDamageToo) {
  for (const FlashKernel& kernel :
       {flash_backward_dkv(small_work(), false), flash_backward_dkv(small_work(), true),
        flash_backward_dq(small_work())}) {
    SCOPED_TRACE(kernel.text.name);
    const std::vector<HostArray> right = run(kernel, kernel.text.text);
    for (const Damage& damage :
         {Damage{"no mask", "predicate = 4 : i64", "predicate = 3 : i64"},
          Damage{"no difference", "arith.subf", "arith.addf"},
          Damage{"another axis", "dimensions = array<i32: 0>", "dimensions = array<i32: 1>"}}) {
      SCOPED_TRACE(damage.what);
      double worst = 0;
      try {
        const auto wrong = run(kernel, replaced(kernel.text.text, damage.from, damage.to));
        for (size_t i = 0; i < wrong.size(); ++i) {
          worst = std::max(worst, largest_difference(wrong[i], right[i]) / largest(right[i]));
        }
      } catch (const Error&) {
        continue;
      }
      EXPECT_GT(worst, 1e-5);
    }
  }
}

// All forms agree for small scores; for others only the running maximum is right. f32: sums of up
// to 300 products of 128 in other orders.
TEST(TpuFlashText, TakesTheFormThatEachTileOfHeadsIsSaidToHave) {
  constexpr double kRounding = 2e-6;
  FlashWork work = small_work();
  const FlashKernel running = flash_forward(work);
  work.maximum = FlashMaximum::EITHER;
  const FlashKernel either = flash_forward(work);
  ASSERT_EQ(either.operands[0], (Shape{DType::S32, {2}}));
  std::vector<HostArray> given;
  for (const Shape& shape : running.operands) {
    given.push_back(kinema::normal(shape.dims, given.size()));
  }
  const auto in_form = [&](std::array<int32_t, 2> tiles) {
    std::vector<HostArray> all{HostArray::from<int32_t>(DType::S32, {2}, tiles)};
    all.insert(all.end(), given.begin(), given.end());
    return interpreter::run_mosaic(either.text.text, all, either.results);
  };
  const auto in_running_form = [&] {
    return interpreter::run_mosaic(running.text.text, given, running.results);
  };
  const auto head = [](const HostArray& x, size_t which) {
    const auto both = x.as<float>();
    const size_t size = both.size() / 2;
    return HostArray::from<float>(DType::F32, {static_cast<int64_t>(size)},
                                  both.subspan(which * size, size));
  };
  std::vector<HostArray> want = in_running_form();
  for (const std::array<int32_t, 2> tiles : {std::array{0, 0}, {0, 1}, {1, 0}, {1, 1}}) {
    const std::vector<HostArray> got = in_form(tiles);
    for (const size_t result : {0, 1}) {
      for (const size_t h : {0, 1}) {
        const double by = largest_difference(head(got[result], h), head(want[result], h));
        EXPECT_LE(by, kRounding * largest(want[result]));
        EXPECT_EQ(by == 0, tiles[h] == 0) << "the other form rounds otherwise";
      }
    }
  }
  for (float& x : given[0].as<float>().last(given[0].as<float>().size() / 2)) {
    x *= 100;
  }
  want = in_running_form();
  const std::vector<HostArray> got = in_form({1, 0});
  const std::vector<HostArray> wrong = in_form({1, 1});
  for (const size_t result : {0, 1}) {
    EXPECT_LE(largest_difference(got[result], want[result]), kRounding * largest(want[result]));
    EXPECT_EQ(largest(head(wrong[result], 1)), INFINITY);
    EXPECT_EQ(head(wrong[result], 0).bytes, head(got[result], 0).bytes);
  }
}

TEST(TpuFlashText, IsRefusedForBlocksThatDoNotDivide) {
  FlashWork work = small_work();
  work.block_q = 192;
  EXPECT_THROW(flash_forward(work), Error);
  work = small_work();
  work.block_kv_compute = 64;
  EXPECT_THROW(flash_backward_dq(work), Error);
}

TEST(TpuFlashWork, CountsWhatItDoesAndMoves) {
  FlashWork work = small_work();
  work.dtype = work.result = DType::BF16;
  const FlashKernel kernel = flash_forward(work);
  EXPECT_EQ(kernel.flops, 4.0 * 2 * 256 * 512 * 128);
  EXPECT_EQ(kernel.exponentials, 2.0 * 256 * 512);
  // q and y once, k and v for each of two blocks of queries, lse once.
  EXPECT_EQ(kernel.hbm_bytes, 2.0 * 128 * 2 * (2 * 256 + 2 * 2 * 512) + 4.0 * 2 * 256);
}

// The share of the peak is that of the form which the norms of queries and keys usually allow.
TEST(TpuFlashWork, CostsLessWithAFixedMaximumOnV6e) {
  FlashWork work = small_work();
  work.dtype = work.result = DType::BF16;
  work.queries = work.block_q = 4736;
  work.block_kv_compute = 256;
  const auto cost_of = [&](FlashMaximum maximum, const char* chip) {
    work.maximum = maximum;
    const std::string body = base64(flash_forward(work).text.text);
    const auto cost = tpu_kernel_cost(fmt::format(R"({{"body": "{}"}})", body), chip);
    EXPECT_TRUE(cost);
    return cost.value_or(KernelCost{});
  };
  const KernelCost running = cost_of(FlashMaximum::RUNNING, "v6e");
  const KernelCost fixed = cost_of(FlashMaximum::EITHER, "v6e");
  EXPECT_EQ(running.name, "flash forward (Mosaic)");
  EXPECT_EQ(fixed.name, "flash forward, fixed maximum (Mosaic)");
  EXPECT_EQ(fixed.flops, running.flops);
  EXPECT_NEAR(fixed.peak_share / running.peak_share, 1.19, 0.05);
  EXPECT_NEAR(cost_of(FlashMaximum::EITHER, "v5p").peak_share,
              cost_of(FlashMaximum::RUNNING, "v5p").peak_share, 0.02);
}

}  // namespace
}  // namespace kinema::kernels
