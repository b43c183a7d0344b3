#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "arrays.h"
#include "kernels/interpreter/triton.h"
#include "kinema/core/error.h"
#include "kinema/kernels/gpu/triton_flash.h"
#include "kinema/kernels/gpu/triton_tiles.h"

namespace kinema::kernels {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using triton::FlashKernel;
using triton::FlashPass;
using triton::FlashTile;
using triton::FlashWork;

constexpr const char* kA100 = "NVIDIA A100-SXM4-80GB";
constexpr const char* kH100 = "NVIDIA H100 80GB HBM3";
constexpr const char* kB200 = "NVIDIA B200";
constexpr const char* kCard = "NVIDIA GeForce RTX 4090";

constexpr FlashPass kPasses[] = {FlashPass::FORWARD, FlashPass::BACKWARD_DKV,
                                 FlashPass::BACKWARD_DQ};

// ---- Texts ----------------------------------------------------------------------------------

/// A small kernel with every case: several blocks, partial blocks, masked keys, a width that is not
/// a power of two.
FlashWork small_work() {
  return {.batch = 2,
          .queries = 100,
          .keys = 90,
          .heads = 2,
          .width = 24,
          .dtype = DType::F32,
          .result = DType::F32,
          .scale = 0.2,
          .keys_given = true,
          .tile = {.block_q = 32, .block_kv = 16}};
}

/// The kernel's results for random operands, except for the number of keys.
std::vector<HostArray> run(const FlashKernel& kernel, const std::string& text,
                           std::array<int64_t, 3> grid, int32_t counted = 70) {
  std::vector<HostArray> given;
  for (const Shape& shape : kernel.operands) {
    if (shape.dtype == DType::S32) {
      const int32_t number[] = {counted};
      given.push_back(HostArray::from<int32_t>(DType::S32, {}, number));
    } else {
      given.push_back(kinema::normal(shape.dims, given.size()));
    }
  }
  return interpreter::run_triton(text, kernel.text.name, grid, given, kernel.results);
}

std::vector<HostArray> run(const FlashKernel& kernel) {
  return run(kernel, kernel.text.text, kernel.text.grid);
}

double worst_difference(const std::vector<HostArray>& got, const std::vector<HostArray>& want) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    worst = std::max(worst, largest_difference(got[i], want[i]) / largest(want[i]));
  }
  return worst;
}

// Another order of summation: some ten f32 roundings.
TEST(TritonFlashText, GivesTheSameWithEveryTile) {
  for (const FlashPass pass : kPasses) {
    FlashWork work = small_work();
    const std::vector<HostArray> want = run(triton::flash_kernel(pass, work));
    for (const FlashTile& tile :
         {FlashTile{16, 16}, FlashTile{16, 64}, FlashTile{64, 16}, FlashTile{128, 32},
          FlashTile{32, 128}, FlashTile{128, 128}, FlashTile{32, 16, 8, 1}}) {
      work.tile = tile;
      EXPECT_LE(worst_difference(run(triton::flash_kernel(pass, work)), want), 2e-6)
          << tile.block_q << " x " << tile.block_kv;
    }
  }
}

TEST(TritonFlashText, TakesACountOfKeysBeyondThem) {
  for (const FlashPass pass : kPasses) {
    const FlashKernel kernel = triton::flash_kernel(pass, small_work());
    const auto with = [&](int32_t counted) {
      return run(kernel, kernel.text.text, kernel.text.grid, counted);
    };
    EXPECT_EQ(worst_difference(with(1000), with(90)), 0);
    const std::vector<HostArray> none = with(0);
    const std::vector<HostArray> less = with(-7);
    for (size_t i = 0; i < none.size(); ++i) {
      EXPECT_EQ(less[i].bytes, none[i].bytes);
    }
  }
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

/// Each damage must give an error or other numbers.
void expect_shown(const FlashKernel& kernel, const std::vector<Damage>& all) {
  const std::vector<HostArray> right = run(kernel);
  for (const Damage& damage : all) {
    SCOPED_TRACE(damage.what);
    const std::string text = replaced(kernel.text.text, damage.from, damage.to);
    ASSERT_TRUE(text != kernel.text.text);
    double worst = INFINITY;
    try {
      worst = worst_difference(run(kernel, text, kernel.text.grid), right);
    } catch (const Error&) {
      continue;
    }
    EXPECT_GT(worst, 1e-5);
  }
}

TEST(TritonFlashText, ShowsEveryDamage) {
  const std::vector<Damage> all{
      {"keys and those beyond them", "predicate = 2", "predicate = 5"},
      {"products of rounded operands", "inputPrecision = 2", "inputPrecision = 0"},
      {"another base", "math.exp2", "math.exp"},
      {"another logarithm", "math.log2", "math.log"},
      {"the largest weight in place of their sum", "arith.addf", "arith.maxnumf"},
      {"k in place of k^T", "order = array<i32: 1, 0>", "order = array<i32: 0, 1>"},
      {"a head's matrix at another place", "value = 24 : i64", "value = 12 : i64"},
      {"a sample's matrix at another place", "value = 4800 : i64", "value = 2400 : i64"},
      {"rows of another length", "value = 48 : i32", "value = 24 : i32"},
      {"blocks that overlap", "value = 32 : i32", "value = 16 : i32"},
      {"another axis of the grid", "axis = 1 : i32}> : () -> i32", "axis = 2 : i32}> : () -> i32"},
      {"columns beyond the width", "value = 24 : i32", "value = 32 : i32"},
      {"a largest score that is forgotten", "value = dense<-2.0", "value = dense<2.0"},
      {"no blocks of keys but the last", "arith.divsi", "arith.remsi"},
      {"a sum for a difference", "arith.subf", "arith.addf"},
      {"a type that does not fit", "tensor<32x16xf32>", "tensor<16x32xf32>"},
      {"a scale that is not there",
       fmt::format("dense<{:.9e}> : tensor<32x16xf32>", 0.2 * 1.4426950408889634),
       "dense<1.0> : tensor<32x16xf32>"},
      {"all keys", "arith.minsi", "arith.maxsi"}};
  ASSERT_GE(all.size(), 12U);
  expect_shown(triton::flash_forward(small_work()), all);
}

TEST(TritonFlashText, OfTheBackwardKernelsShowsDamageToo) {
  for (const FlashPass pass : {FlashPass::BACKWARD_DKV, FlashPass::BACKWARD_DQ}) {
    const FlashKernel kernel = triton::flash_kernel(pass, small_work());
    SCOPED_TRACE(kernel.text.name);
    expect_shown(kernel,
                 {{"keys and those beyond them", "predicate = 2", "predicate = 5"},
                  {"products of rounded operands", "inputPrecision = 2", "inputPrecision = 0"},
                  {"a sum for a difference", "arith.subf", "arith.addf"},
                  {"another base", "math.exp2", "math.exp"},
                  {"lse in other units", fmt::format("{:.9e}", 1.4426950408889634), "1.0"},
                  {"a head's matrix at another place", "value = 4800 : i64", "value = 2400 : i64"},
                  {"one number a key", "axis = 1 : i32}> : (tensor", "axis = 0 : i32}> : (tensor"},
                  {"no scale at the end", fmt::format("{:.9e}", 0.2), "1.0"},
                  {"all keys", "arith.minsi", "arith.maxsi"}});
  }
}

TEST(TritonFlashText, IsRefusedForTilesThatTheCompilerWouldDieOf) {
  const auto refused = [](FlashTile tile, const char* why) {
    FlashWork work = small_work();
    work.tile = tile;
    EXPECT_THAT([&] { triton::flash_forward(work); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused({32, 32, 6, 2}, "6 warps");
  refused({32, 32, 4, 0}, "0 stages");
  refused({48, 32, 4, 2}, "a block of 48 rows");
  refused({32, 8, 4, 2}, "a block of 8 rows");
  FlashWork work = small_work();
  work.scale = 0;
  EXPECT_THAT([&] { triton::flash_forward(work); },
              ThrowsMessage<Error>(HasSubstr("[kernels] scores are scaled by 0")));
  work = small_work();
  work.dtype = DType::F64;
  EXPECT_THAT([&] { triton::flash_forward(work); },
              ThrowsMessage<Error>(HasSubstr("arrays of f64 were given")));
}

// ---- Tiles ----------------------------------------------------------------------------------

TEST(TritonTiles, FitEveryChip) {
  for (const char* chip : {kA100, kH100, kB200, kCard, "NVIDIA GeForce RTX 5090", ""}) {
    for (const DType dtype : {DType::BF16, DType::F16, DType::F32}) {
      for (const int64_t width : {1, 16, 17, 64, 100, 128, 130, 256}) {
        for (const FlashPass pass : kPasses) {
          FlashWork work{.width = width, .dtype = dtype};
          work.tile = triton::best_tile(pass, work, chip);
          EXPECT_NO_THROW(triton::check_fits(pass, work, chip)) << chip << " " << width;
          EXPECT_NO_THROW(triton::flash_kernel(pass, work)) << chip << " " << width;
        }
      }
    }
  }
  const FlashWork wide{.width = 257};
  EXPECT_THAT([&] { triton::best_tile(FlashPass::FORWARD, wide, kH100); },
              ThrowsMessage<Error>(HasSubstr("heads of 257")));
}

TEST(TritonTiles, BeyondSharedMemoryAreRefused) {
  const FlashWork work{.width = 128, .tile = {128, 128, 8, 4}};
  // 32 KiB of queries, four times 64 KiB of keys and values.
  EXPECT_EQ(triton::shared_bytes(FlashPass::FORWARD, work, triton::Architecture::HOPPER), 294912);
  EXPECT_THAT([&] { triton::check_fits(FlashPass::FORWARD, work, kH100); },
              ThrowsMessage<Error>(HasSubstr("294912 bytes of shared memory, at most 232448")));
  const FlashWork less{.width = 128, .tile = {128, 64, 8, 3}};
  EXPECT_NO_THROW(triton::check_fits(FlashPass::FORWARD, less, kA100));
  EXPECT_THROW(triton::check_fits(FlashPass::FORWARD, less, kCard), Error);
}

// The compiler's numbers (CUDA plugin of JAX 0.12.0.1).
TEST(TritonTiles, TakeWhatTheCompilerSaysOrMore) {
  struct Said {
    triton::Architecture on;
    FlashPass pass;
    FlashTile tile;
    int64_t bytes;
    DType dtype = DType::BF16;
    int64_t width = 128;
  };
  using triton::Architecture;
  for (const Said& said :
       {Said{Architecture::HOPPER, FlashPass::FORWARD, {128, 64, 8, 3}, 131072},
        Said{Architecture::HOPPER, FlashPass::BACKWARD_DKV, {32, 128, 8, 3}, 115200},
        Said{Architecture::HOPPER, FlashPass::BACKWARD_DQ, {128, 64, 8, 3}, 163840},
        Said{Architecture::BLACKWELL, FlashPass::FORWARD, {128, 128, 8, 2}, 164384},
        Said{Architecture::BLACKWELL, FlashPass::BACKWARD_DKV, {64, 128, 8, 3}, 197696},
        Said{Architecture::BLACKWELL, FlashPass::BACKWARD_DQ, {128, 64, 8, 3}, 180272},
        Said{Architecture::BLACKWELL,
             FlashPass::BACKWARD_DKV,
             {32, 64, 8, 2},
             164160,
             DType::BF16,
             256},
        Said{Architecture::BLACKWELL,
             FlashPass::BACKWARD_DQ,
             {64, 32, 8, 2},
             147504,
             DType::BF16,
             256},
        Said{Architecture::BLACKWELL,
             FlashPass::BACKWARD_DQ,
             {128, 64, 8, 3},
             90160,
             DType::F16,
             64},
        Said{Architecture::AMPERE, FlashPass::FORWARD, {128, 64, 8, 3}, 65536},
        Said{Architecture::AMPERE, FlashPass::BACKWARD_DKV, {16, 128, 8, 3}, 82176},
        Said{Architecture::AMPERE, FlashPass::BACKWARD_DQ, {128, 32, 8, 2}, 65536},
        Said{Architecture::HOPPER, FlashPass::FORWARD, {32, 16, 8, 1}, 26624, DType::F32},
        Said{Architecture::HOPPER, FlashPass::BACKWARD_DKV, {16, 32, 4, 1}, 53248, DType::F32},
        Said{Architecture::CARD,
             FlashPass::BACKWARD_DKV,
             {16, 64, 8, 2},
             86144,
             DType::BF16,
             256}}) {
    const FlashWork work{.width = said.width, .dtype = said.dtype, .tile = said.tile};
    const int64_t bytes = triton::shared_bytes(said.pass, work, said.on);
    EXPECT_GE(bytes, said.bytes);
    EXPECT_LE(bytes, 2 * said.bytes);
  }
}

TEST(TritonTiles, KnowChipsByEveryName) {
  using triton::Architecture;
  using triton::gpu_architecture;
  EXPECT_EQ(gpu_architecture("NVIDIA A100-SXM4-80GB"), Architecture::AMPERE);
  EXPECT_EQ(gpu_architecture("a100-80gb"), Architecture::AMPERE);
  EXPECT_EQ(gpu_architecture("NVIDIA H100 80GB HBM3"), Architecture::HOPPER);
  EXPECT_EQ(gpu_architecture("gh200"), Architecture::HOPPER);
  EXPECT_EQ(gpu_architecture("NVIDIA H200"), Architecture::HOPPER);
  EXPECT_EQ(gpu_architecture("NVIDIA B200"), Architecture::BLACKWELL);
  EXPECT_EQ(gpu_architecture("NVIDIA GeForce RTX 5090"), Architecture::CARD);
  EXPECT_EQ(gpu_architecture("NVIDIA GeForce RTX 4090"), Architecture::CARD);
  EXPECT_EQ(gpu_architecture(""), Architecture::CARD);
}

}  // namespace
}  // namespace kinema::kernels
