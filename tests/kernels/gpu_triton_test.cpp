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
  // What does not count must not show, not even where it is no number.
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
  EXPECT_TRUE(triton_flash_takes(q, q, DType::F32, 0.1));
  EXPECT_FALSE(triton_flash_takes(q, q, DType::F16, 0.1));
  EXPECT_FALSE(triton_flash_takes(q, q, DType::BF16, -0.1));
  EXPECT_FALSE(triton_flash_takes(q, {DType::BF16, {1, 0, 2, 64}}, DType::BF16, 0.1));
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
    for (const FlashTile& tile : {FlashTile{16, 16}, FlashTile{16, 64}, FlashTile{64, 16},
                                  FlashTile{128, 32}, FlashTile{32, 128}, FlashTile{128, 128}}) {
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
      {"the smallest in place of the largest", "arith.maxnumf", "arith.minnumf"},
      {"k in place of k^T", "order = array<i32: 1, 0>", "order = array<i32: 0, 1>"},
      {"a head's matrix at another place", "value = 2400 : i64", "value = 4800 : i64"},
      {"a sample's matrix at another place", "value = 4800 : i64", "value = 2400 : i64"},
      {"rows of another length", "value = 48 : i32", "value = 24 : i32"},
      {"blocks that overlap", "value = 32 : i32", "value = 16 : i32"},
      {"another axis of the grid", "axis = 1 : i32}> : () -> i32", "axis = 2 : i32}> : () -> i32"},
      {"columns beyond the width", "value = 24 : i32", "value = 32 : i32"},
      {"a largest score that is forgotten", "value = dense<-2.0", "value = dense<2.0"},
      {"no blocks of keys but the last", "arith.divsi", "arith.remsi"},
      {"a sum for a difference", "arith.subf", "arith.addf"},
      {"a type that does not fit", "tensor<32x16xf32>", "tensor<16x32xf32>"},
      {"a scale that is not there", fmt::format("{:.9e}", 0.2 * 1.4426950408889634), "1.0"},
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

}  // namespace
}  // namespace kinema::kernels
