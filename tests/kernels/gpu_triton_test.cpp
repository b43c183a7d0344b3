#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "arrays.h"
#include "kernels/interpreter/handlers.h"
#include "kernels/interpreter/triton.h"
#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/triton_calls.h"
#include "kinema/kernels/gpu/triton_cost.h"
#include "kinema/kernels/gpu/triton_flash.h"
#include "kinema/kernels/gpu/triton_tiles.h"
#include "kinema/nn/flash_attention.h"
#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::kernels {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;
using triton::FlashKernel;
using triton::FlashPass;
using triton::FlashTile;
using triton::FlashWork;

constexpr FlashPass kPasses[] = {FlashPass::FORWARD, FlashPass::BACKWARD_DKV,
                                 FlashPass::BACKWARD_DQ};

const pjrt::Client& client() {
  static const pjrt::Client opened = [] {
    pjrt::Client made = pjrt::cpu_client();
    for (const Handler& each : interpreter::handlers()) {
      made.plugin().register_ffi_handler(each.name, each.handler, each.platform);
    }
    return made;
  }();
  return opened;
}

// ---- Whole calls, run on the CPU client -------------------------------------------------------

constexpr const char* kA100 = "NVIDIA A100-SXM4-80GB";
constexpr const char* kH100 = "NVIDIA H100 80GB HBM3";
constexpr const char* kB200 = "NVIDIA B200";
constexpr const char* kCard = "NVIDIA GeForce RTX 4090";

struct Case {
  int64_t batch, queries, keys, heads, width;
  DType dtype = DType::F32;
  std::string chip = kH100;
  int64_t counted = -1;  // keys that count, said while the program runs; -1: all, known before
};

// Lengths that fill blocks and that do not, one query, one key, some of the keys; one head and
// several; widths that are powers of two and that are not; several blocks along each axis.
std::vector<Case> cases() {
  const DType b = DType::BF16;
  const DType h = DType::F16;
  const DType f = DType::F32;
  return {
      {1, 128, 128, 1, 128, f, kH100},
      {2, 256, 384, 2, 64, f, kH100},
      {1, 100, 77, 2, 128, f, kH100},
      {1, 129, 257, 3, 64, f, kA100},
      {2, 200, 300, 2, 64, f, kB200},
      {1, 130, 200, 2, 256, f, kH100},
      {1, 140, 260, 1, 200, f, kA100},
      {1, 96, 160, 2, 96, f, kH100},
      {1, 50, 70, 3, 40, f, kCard},
      {1, 33, 17, 2, 17, f, kCard},
      {1, 1, 300, 2, 128, f, kH100},
      {1, 300, 1, 2, 128, f, kH100},
      {1, 1, 1, 1, 64, f, kH100},
      {1, 3, 5, 1, 16, f, kA100},
      {3, 7, 9, 2, 5, f, kB200},
      {1, 512, 300, 1, 64, f, kCard},
      {1, 300, 512, 1, 64, f, kCard},
      {1, 256, 512, 2, 64, f, kH100, 300},
      {1, 256, 512, 2, 64, f, kH100, 512},
      {1, 256, 512, 2, 64, f, kA100, 1},
      {1, 256, 512, 2, 64, f, kB200, 256},
      {1, 200, 300, 2, 72, f, kH100, 130},
      {2, 130, 140, 2, 128, f, kCard, 129},
      {2, 40, 140, 2, 256, f, kCard, 64},
      {1, 128, 128, 1, 128, b, kH100},
      {2, 256, 384, 2, 128, b, kH100},
      {1, 384, 512, 1, 128, b, kB200},
      {1, 129, 257, 3, 64, b, kH100},
      {1, 130, 200, 2, 256, b, kH100},
      {1, 130, 200, 2, 256, b, kA100},
      {1, 100, 77, 2, 128, b, kA100},
      {1, 300, 300, 2, 128, b, kCard},
      {1, 77, 190, 2, 80, b, kH100},
      {1, 64, 64, 4, 16, b, kB200},
      {1, 256, 512, 2, 128, b, kH100, 300},
      {1, 256, 512, 2, 128, b, kA100, 1},
      {1, 200, 300, 4, 64, b, kB200, 150},
      {1, 300, 512, 2, 128, b, kCard, 200},
      {1, 200, 300, 2, 64, h, kH100},
      {1, 129, 257, 2, 128, h, kA100},
      {1, 128, 300, 2, 100, h, kB200, 200},
      {1, 65, 129, 2, 256, h, kCard},
  };
}

std::string name_of(const Case& c) {
  return fmt::format("[{}, {}, {}, {}] x {}, {} count, {}, {}", c.batch, c.queries, c.heads,
                     c.width, c.keys, c.counted, to_string(c.dtype), c.chip);
}

/// q, k, v, dy in f32, and how many keys count.
std::vector<HostArray> arguments(const Case& c) {
  std::vector<HostArray> given{kinema::normal({c.batch, c.queries, c.heads, c.width}, 1),
                               kinema::normal({c.batch, c.keys, c.heads, c.width}, 2),
                               kinema::normal({c.batch, c.keys, c.heads, c.width}, 3),
                               kinema::normal({c.batch, c.queries, c.heads, c.width}, 4)};
  // What does not count must not show, however large it is.
  for (size_t i = 1; c.counted >= 0 && i < 3; ++i) {
    const auto x = given[i].as<float>();
    const int64_t row = c.heads * c.width;
    for (int64_t sample = 0; sample < c.batch; ++sample) {
      std::fill(x.begin() + (sample * c.keys + c.counted) * row,
                x.begin() + (sample + 1) * c.keys * row, i == 1 ? 50.0F : -50.0F);
    }
  }
  const int32_t counted[] = {static_cast<int32_t>(c.counted)};
  given.push_back(HostArray::from<int32_t>(DType::S32, {}, counted));
  return given;
}

/// y, lse, dq, dk, dv of inputs that are rounded to the case's dtype, computed in `dtype`, as f32.
std::vector<Tensor> build(Graph& graph, const Case& c, std::span<const HostArray> given,
                          DType dtype) {
  std::vector<Tensor> in;
  for (const HostArray& each : given) {
    const Tensor x = graph.input(each.shape);
    in.push_back(is_float(x.dtype()) ? convert(convert(x, c.dtype), dtype) : x);
  }
  const nn::FlashOptions options{.scale = 1.0 / std::sqrt(static_cast<double>(c.width)),
                                 .precision = Precision::HIGHEST};
  const Tensor keys = c.counted >= 0 ? in[4] : Tensor();
  const nn::FlashResult result = nn::flash_forward(in[0], in[1], in[2], keys, dtype, options);
  const Tensor delta = nn::flash_delta(result.y, in[3]);
  const nn::FlashGradients grads =
      nn::flash_backward(in[0], in[1], in[2], result.lse, delta, in[3], keys, dtype, options);
  std::vector<Tensor> out{result.y, result.lse, grads.dq, grads.dk, grads.dv};
  for (Tensor& each : out) {
    each = each.dtype() == DType::F32 ? each : convert(each, DType::F32);
  }
  return out;
}

EmitOptions interpreted(const std::string& chip) {
  EmitOptions options;
  options.lowering = interpreter::interpreting(triton_lowering({.chip = chip}));
  return options;
}

class GpuTriton : public ::testing::TestWithParam<int> {};

// f32: both sides sum up to 512 products of 256 in f32, in other orders; 2e-6 of the largest value.
// bf16: y is a mean of values with weights of 8 bits, and rounded: 2^-8. In gradients a difference
// is rounded to 8 bits before it is multiplied: 2^-7. f16 has three bits more. lse is f32 in all.
TEST_P(GpuTriton, IsTheReference) {
  constexpr const char* kTensors[] = {"y", "lse", "dq", "dk", "dv"};
  constexpr int kParts = 4;
  const std::vector<Case> all = cases();
  ASSERT_GE(all.size(), 40U);
  for (size_t i = static_cast<size_t>(GetParam()); i < all.size(); i += kParts) {
    const Case& c = all[i];
    SCOPED_TRACE(name_of(c));
    const std::vector<HostArray> given = arguments(c);
    Graph plain;
    Graph fast;
    const auto want = runtime::Program::compile(client(), plain, build(plain, c, given, DType::F32),
                                                {.kernels = false})
                          .run_on_host(given);
    const auto outputs = build(fast, c, given, c.dtype);
    const EmitOptions emit_options = interpreted(c.chip);
    ASSERT_THAT(emit(fast, outputs, emit_options), HasSubstr(interpreter::kTritonTarget));
    const auto got = runtime::Program::compile(client(), fast, outputs, {.emit = emit_options})
                         .run_on_host(given);
    const double narrow = c.dtype == DType::F16 ? 0x1p-11 : 0x1p-8;
    for (size_t t = 0; t < got.size(); ++t) {
      const bool exact = c.dtype == DType::F32 || t == 1;
      // With one key softmax is 1 and what its gradients are made of cancels: sums of up to 300
      // products of v dy, which is about 11 and up to 40.
      const bool cancels = t >= 2 && (c.keys == 1 || c.counted == 1);
      const double scale = std::max(largest(want[t]), cancels ? 16.0 : 1.0);
      EXPECT_LE(largest_difference(got[t], want[t]), (exact    ? 2e-6
                                                      : t == 0 ? narrow
                                                               : 2 * narrow) *
                                                         scale)
          << kTensors[t];
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, GpuTriton, ::testing::Range(0, 4));

TEST(GpuTritonWithoutKeys, GivesNothingInfinite) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const Case c{1, 130, 256, 2, 64, dtype, kH100, 0};
    const std::vector<HostArray> given = arguments(c);
    Graph graph;
    const auto outputs = build(graph, c, given, c.dtype);
    const auto got =
        runtime::Program::compile(client(), graph, outputs, {.emit = interpreted(c.chip)})
            .run_on_host(given);
    EXPECT_EQ(largest(got[0]), 0);
    for (const float lse : got[1].as<float>()) {
      EXPECT_LT(lse, -1e38F);
      EXPECT_TRUE(std::isfinite(lse));
    }
    for (size_t t = 2; t < 5; ++t) {
      EXPECT_EQ(largest(got[t]), 0) << t;
    }
  }
}

TEST(TritonLowering, LeavesWhatThePartitionerSeesAndWhatItDoesNotTake) {
  const auto text = [](const Case& c, const TritonLoweringOptions& options) {
    Graph graph;
    const auto outputs = build(graph, c, arguments(c), c.dtype);
    EmitOptions emit_options;
    emit_options.lowering = triton_lowering(options);
    return emit(graph, outputs, emit_options);
  };
  const char* target = "__gpu$xla.gpu.triton";
  const Case good{1, 128, 128, 1, 128, DType::BF16};
  EXPECT_THAT(text(good, {.chip = kH100}), HasSubstr(target));
  EXPECT_THAT(text(good, {.chip = "a chip of tomorrow"}), HasSubstr(target));
  EXPECT_THAT(text(good, {.chip = kH100, .mesh = true}), Not(HasSubstr(target)));
  EXPECT_THAT(text({1, 128, 128, 1, 264, DType::BF16}, {.chip = kH100}), Not(HasSubstr(target)));
  const Shape q{DType::BF16, {1, 128, 2, 64}};
  EXPECT_EQ(triton_refusal(q, q, DType::F32, 0.1), "");
  EXPECT_THAT(triton_refusal(q, q, DType::F16, 0.1), HasSubstr("results of f16"));
  EXPECT_THAT(triton_refusal(q, q, DType::BF16, -0.1), HasSubstr("a scale of -0.1"));
  EXPECT_THAT(triton_refusal(q, {DType::BF16, {1, 0, 2, 64}}, DType::BF16, 0.1),
              HasSubstr("[1,0,2,64]"));
  const Shape wide{DType::F32, {1, 128, 2, 264}};
  EXPECT_THAT(triton_refusal(wide, wide, DType::F32, 0.1), HasSubstr("heads of 264"));
  const Shape whole{DType::S8, {1, 128, 2, 64}};
  EXPECT_THAT(triton_refusal(whole, whole, DType::S8, 0.1), HasSubstr("q of s8"));
  const Shape many{DType::BF16, {1, 8, 70000, 64}};
  EXPECT_THAT(triton_refusal(many, many, DType::BF16, 0.1), HasSubstr("70000 heads"));
}

// ---- Texts ----------------------------------------------------------------------------------

/// A small kernel with everything in it: several blocks, some of them not full, keys that do not
/// count, a width that is no power of two.
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

/// What the kernel gives for operands of which those before the count of keys are random.
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

// Sums in another order: some ten roundings of f32.
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

/// Each must show: as an error, or as other numbers.
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

// ---- Tiles and figures ------------------------------------------------------------------------

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

// What the compiler said (CUDA plugin of JAX 0.12.0.1).
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
  using triton::architecture_of;
  EXPECT_EQ(architecture_of("NVIDIA A100-SXM4-80GB"), Architecture::AMPERE);
  EXPECT_EQ(architecture_of("a100-80gb"), Architecture::AMPERE);
  EXPECT_EQ(architecture_of("NVIDIA H100 80GB HBM3"), Architecture::HOPPER);
  EXPECT_EQ(architecture_of("gh200"), Architecture::HOPPER);
  EXPECT_EQ(architecture_of("NVIDIA H200"), Architecture::HOPPER);
  EXPECT_EQ(architecture_of("NVIDIA B200"), Architecture::BLACKWELL);
  EXPECT_EQ(architecture_of("NVIDIA GeForce RTX 5090"), Architecture::CARD);
  EXPECT_EQ(architecture_of("NVIDIA GeForce RTX 4090"), Architecture::CARD);
  EXPECT_EQ(architecture_of(""), Architecture::CARD);
}

/// The configuration of the only call in a program, as its text has it.
std::string configuration(FlashPass pass, const Case& c) {
  Graph graph;
  const auto outputs = build(graph, c, arguments(c), c.dtype);
  EmitOptions options;
  options.lowering = triton_lowering({.chip = c.chip});
  const bool forward = pass == FlashPass::FORWARD;
  const bool dkv = pass == FlashPass::BACKWARD_DKV;
  const std::string text = emit(graph, std::vector{outputs[forward ? 0 : dkv ? 3 : 2]}, options);
  const std::string_view name = forward ? "flash_forward_"
                                : dkv   ? "flash_backward_dkv_"
                                        : "flash_backward_dq_";
  const size_t at = text.find(fmt::format("backend_config = {{name = \"{}", name));
  EXPECT_NE(at, std::string::npos);
  return text.substr(at, text.find("debug = false", at) - at);
}

TEST(TritonCost, ReadsWhatACallDoes) {
  const Case c{2, 300, 512, 3, 100, DType::BF16};
  constexpr double kPairs = 2.0 * 3 * 300 * 512 * 128;  // as wide as rows are filled up to
  const auto forward = triton_kernel_cost(configuration(FlashPass::FORWARD, c), "h100");
  ASSERT_TRUE(forward.has_value());
  EXPECT_EQ(forward->name, "flash forward (Triton)");
  EXPECT_EQ(forward->flops, 4 * kPairs);
  EXPECT_EQ(forward->hbm_bytes, 2.0 * 6 * 100 * (2 * 300 + 2 * 512) + 4.0 * 6 * 300);
  EXPECT_NEAR(forward->peak_share, 0.4, 0.01);
  const auto dkv = triton_kernel_cost(configuration(FlashPass::BACKWARD_DKV, c), "h100");
  ASSERT_TRUE(dkv.has_value());
  EXPECT_EQ(dkv->name, "flash backward, dk and dv (Triton)");
  EXPECT_EQ(dkv->flops, 8 * kPairs);
  const auto dq = triton_kernel_cost(configuration(FlashPass::BACKWARD_DQ, c), "b200");
  ASSERT_TRUE(dq.has_value());
  EXPECT_EQ(dq->flops, 6 * kPairs);
  EXPECT_LT(dq->peak_share, forward->peak_share);
  EXPECT_EQ(forward->note, "");
  EXPECT_THAT(dkv->note, HasSubstr("backward"));
  const Case full{1, 64, 64, 1, 64, DType::F32};
  EXPECT_LT(triton_kernel_cost(configuration(FlashPass::FORWARD, full), "a100")->peak_share, 0.1);
}

// Its attributes are sorted, and the kernel's text has names too.
TEST(TritonCost, ReadsWhatTheOptimizedProgramHas) {
  const auto cost = triton_kernel_cost(
      R"({debug = false, grid_x = 591 : i32, grid_y = 40 : i32, grid_z = 1 : i32, ir = "module {\0A  \22tt.func\22() <{sym_name = \22flash_backward_dq_b1_s1_t1_n1_d16_bf16\22}>...", )"
      R"(name = "flash_backward_dkv_b1_s75600_t75600_n40_d128_bf16", num_stages = 3 : i32, num_warps = 8 : i32})",
      "NVIDIA H100 80GB HBM3");
  ASSERT_TRUE(cost.has_value());
  EXPECT_EQ(cost->name, "flash backward, dk and dv (Triton)");
  EXPECT_EQ(cost->flops, 8.0 * 75600 * 75600 * 40 * 128);
}

TEST(TritonCost, KnowsNothingOfOtherKernels) {
  EXPECT_FALSE(triton_kernel_cost("", "h100"));
  EXPECT_FALSE(triton_kernel_cost("{name = \"gemm\", num_warps = 4 : i32}", "h100"));
  EXPECT_FALSE(triton_kernel_cost("{name = \"flash_forward_b1_s2\"}", "h100"));
  EXPECT_FALSE(triton_kernel_cost("{name = \"flash_forward_bx_s2_t2_n1_d1_bf16\"}", "h100"));
  EXPECT_FALSE(triton_kernel_cost("{name = \"", "h100"));
}

}  // namespace
}  // namespace kinema::kernels
