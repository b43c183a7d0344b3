#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "arrays.h"
#include "kernels/interpreter/handlers.h"
#include "kernels/interpreter/mosaic.h"
#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/tpu/flash.h"
#include "kinema/kernels/tpu/lowering.h"
#include "kinema/nn/flash_attention.h"
#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::kernels {
namespace {

using ::testing::HasSubstr;

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

// ---- Whole calls: what stands around the kernels too, run on the CPU client ------------------

struct Case {
  int64_t batch, queries, keys, heads, width;
  DType dtype = DType::F32;
  int64_t counted = -1;  // keys that count, said while the program runs; -1: all, known before
  FlashBlockSizes blocks = {};
  bool base2 = true;
};

FlashBlockSizes blocks(int64_t q, int64_t kv, int64_t compute, bool fused = false,
                       int64_t heads = 1) {
  return {.block_q = q,
          .block_kv = kv,
          .block_kv_compute = compute,
          .block_q_dkv = q,
          .block_kv_dkv = kv,
          .block_kv_dkv_compute = compute,
          .block_q_dq = q,
          .block_kv_dq = kv,
          .use_fused_bwd_kernel = fused,
          .asked = true,
          .heads_per_tile = heads};
}

// Lengths that fill blocks and that do not, one key, none, one head; narrow and wide heads; several
// blocks along each axis and several parts of a block; both bases, both backward forms.
std::vector<Case> cases() {
  const DType b = DType::BF16;
  const DType f = DType::F32;
  std::vector<Case> all{
      {1, 128, 128, 1, 128, f, -1, blocks(128, 128, 128)},
      {2, 256, 384, 2, 128, f, -1, blocks(128, 128, 128)},
      {1, 256, 512, 2, 128, f, -1, blocks(128, 256, 128)},
      {1, 384, 512, 1, 128, f, -1, blocks(256, 512, 128, true)},
      {1, 100, 77, 2, 128, f, -1, blocks(128, 128, 128)},
      {1, 128, 1000, 1, 128, f, -1, blocks(128, 1024, 128)},
      {1, 129, 257, 3, 64, f, -1, blocks(128, 128, 128)},
      {2, 200, 300, 2, 64, f, -1, blocks(128, 256, 128, true)},
      {1, 130, 200, 2, 256, f, -1, blocks(128, 128, 128)},
      {1, 140, 260, 1, 200, f, -1, blocks(128, 256, 128)},
      {1, 1, 300, 2, 128, f, -1, blocks(128, 128, 128)},
      {1, 300, 1, 2, 128, f, -1, blocks(128, 128, 128)},
      {1, 3, 5, 1, 16, f, -1, blocks(512, 512, 512)},
      {1, 256, 256, 4, 128, f, -1, blocks(128, 128, 128, false, 2)},
      {1, 200, 200, 4, 64, f, -1, blocks(128, 256, 128, true, 4)},
      {1, 200, 200, 3, 128, f, -1, blocks(128, 128, 128, false, 2)},
      {1, 384, 384, 1, 128, f, -1, blocks(128, 384, 128)},
      {1, 256, 300, 2, 128, f, -1, blocks(128, 128, 128), false},
      {1, 256, 300, 2, 128, f, -1, blocks(128, 256, 128, true), false},
      {1, 700, 300, 1, 128, f, -1, blocks(512, 512, 256)},
      {1, 300, 700, 1, 128, f, -1, blocks(512, 512, 256)},
      {1, 256, 512, 2, 128, f, 300, blocks(128, 256, 128)},
      {1, 256, 512, 2, 128, f, 512, blocks(128, 256, 128)},
      {1, 256, 512, 2, 128, f, 1, blocks(128, 128, 128)},
      {1, 256, 512, 2, 128, f, 256, blocks(128, 256, 128, true)},
      {1, 200, 300, 2, 64, f, 130, blocks(128, 128, 128, true)},
      {1, 200, 300, 2, 64, f, 130, blocks(128, 128, 128), false},
      {2, 130, 140, 2, 256, f, 129, blocks(128, 256, 128)},
      {1, 200, 300, 4, 128, f, 150, blocks(128, 128, 128, false, 4)},
      {1, 128, 128, 1, 128, b, -1, blocks(128, 128, 128)},
      {2, 256, 384, 2, 128, b, -1, blocks(128, 128, 128)},
      {1, 384, 512, 1, 128, b, -1, blocks(256, 512, 128, true)},
      {1, 129, 257, 3, 64, b, -1, blocks(128, 128, 128)},
      {1, 130, 200, 2, 256, b, -1, blocks(128, 128, 128)},
      {1, 100, 77, 2, 128, b, -1, {}},
      {1, 300, 300, 2, 128, b, -1, {}},
      {1, 256, 300, 2, 128, b, -1, blocks(128, 128, 128), false},
      {1, 256, 512, 2, 128, b, 300, blocks(128, 256, 128)},
      {1, 256, 512, 2, 128, b, 1, blocks(128, 128, 128, true)},
      {1, 200, 300, 4, 64, b, 150, blocks(128, 128, 128, false, 4)},
      {1, 300, 512, 2, 128, b, 200, {}},
  };
  return all;
}

std::string name_of(const Case& c) {
  return fmt::format("[{}, {}, {}, {}] x {}, {} count, {}, {} / {} / {}{}{}", c.batch, c.queries,
                     c.heads, c.width, c.keys, c.counted, to_string(c.dtype), c.blocks.block_q,
                     c.blocks.block_kv, c.blocks.block_kv_compute,
                     c.blocks.use_fused_bwd_kernel ? ", fused" : "", c.base2 ? "" : ", base e");
}

/// q, k, v, dy and how many keys count.
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
      const auto from = x.begin() + (sample * c.keys + c.counted) * row;
      std::fill(from, x.begin() + (sample + 1) * c.keys * row, i == 1 ? 50.0F : -50.0F);
    }
  }
  for (HostArray& each : given) {
    each = convert(each, c.dtype);
  }
  const int32_t counted[] = {static_cast<int32_t>(c.counted)};
  given.push_back(HostArray::from<int32_t>(DType::S32, {}, counted));
  return given;
}

/// y, lse, dq, dk, dv; computed in `dtype`.
std::vector<Tensor> build(Graph& graph, const Case& c, std::span<const HostArray> given,
                          DType dtype) {
  std::vector<Tensor> in;
  for (const HostArray& each : given) {
    const Tensor x = graph.input(each.shape);
    in.push_back(is_float(x.dtype()) ? convert(x, dtype) : x);
  }
  const nn::FlashOptions options{.scale = 1.0 / std::sqrt(static_cast<double>(c.width)),
                                 .precision = Precision::HIGHEST,
                                 .blocks = c.blocks,
                                 .base2 = c.base2};
  const Tensor keys = c.counted >= 0 ? in[4] : Tensor();
  const nn::FlashResult result = nn::flash_forward(in[0], in[1], in[2], keys, dtype, options);
  const Tensor delta = nn::flash_delta(result.y, in[3]);
  const nn::FlashGradients grads = nn::flash_backward(in[0], in[1], in[2], result.lse, delta, in[3],
                                                      result.y, keys, dtype, options);
  return {result.y, result.lse, grads.dq, grads.dk, grads.dv};
}

EmitOptions interpreted(const std::string& chip) {
  EmitOptions options;
  options.lowering = interpreter::interpreting(tpu_lowering({.chip = chip}));
  return options;
}

double difference(const HostArray& a, const HostArray& b) {
  const HostArray x = convert(a, DType::F32);
  const HostArray y = convert(b, DType::F32);
  double out = 0;
  for (size_t i = 0; i < x.as<float>().size(); ++i) {
    const double by = std::abs(static_cast<double>(x.as<float>()[i]) - y.as<float>()[i]);
    out = std::isnan(by) ? INFINITY : std::max(out, by);
  }
  return out;
}

class TpuFlash : public ::testing::TestWithParam<int> {};

// f32: both sides sum up to 700 products of 256 in f32, in other orders; 2e-6 of the largest value.
// bf16: y is a mean of values with weights of 8 bits, and rounded: 2^-8. In gradients a difference
// is rounded to 8 bits before it is multiplied: 2^-7. lse is f32 in both.
TEST_P(TpuFlash, IsTheReference) {
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
    const EmitOptions emit_options = interpreted("TPU v5p");
    ASSERT_THAT(emit(fast, outputs, emit_options), HasSubstr(interpreter::kMosaicTarget));
    const auto got = runtime::Program::compile(client(), fast, outputs, {.emit = emit_options})
                         .run_on_host(given);
    for (size_t t = 0; t < got.size(); ++t) {
      const bool exact = c.dtype == DType::F32 || t == 1;
      // With one key softmax is 1 and what its gradients are made of cancels: sums of up to 300
      // products of v dy, which is about 11 and up to 40.
      const bool cancels = t >= 2 && (c.keys == 1 || c.counted == 1);
      const double scale = std::max(largest(want[t]), cancels ? 16.0 : 1.0);
      EXPECT_LE(difference(got[t], want[t]), (exact    ? 2e-6
                                              : t == 0 ? 0x1p-8
                                                       : 0x1p-7) *
                                                 scale)
          << kTensors[t];
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, TpuFlash, ::testing::Range(0, 4));

TEST(TpuFlashWithoutKeys, GivesNothingInfinite) {
  const Case c{1, 130, 256, 2, 128, DType::F32, 0, blocks(128, 128, 128)};
  const std::vector<HostArray> given = arguments(c);
  Graph graph;
  const auto outputs = build(graph, c, given, c.dtype);
  const auto got =
      runtime::Program::compile(client(), graph, outputs, {.emit = interpreted("TPU v6e")})
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

TEST(TpuLowering, LeavesWhatThePartitionerSeesAndWhatItDoesNotKnow) {
  const auto text = [](const Case& c, const TpuLoweringOptions& options) {
    Graph graph;
    const auto outputs = build(graph, c, arguments(c), c.dtype);
    EmitOptions emit_options;
    emit_options.lowering = tpu_lowering(options);
    return emit(graph, outputs, emit_options);
  };
  const Case good{1, 128, 128, 1, 128};
  EXPECT_THAT(text(good, {.chip = "TPU v6e"}), HasSubstr("tpu_custom_call"));
  EXPECT_THAT(text(good, {.chip = "TPU v6e", .mesh = true}),
              ::testing::Not(HasSubstr("tpu_custom_call")));
  EXPECT_THAT(text({1, 128, 128, 1, 264}, {.chip = "TPU v6e"}),
              ::testing::Not(HasSubstr("tpu_custom_call")));
}

TEST(TpuLowering, SwapsPairsWithoutRounding) {
  Graph graph;
  const HostArray x = kinema::normal({3, 5, 64, 2}, 1);
  const Tensor y = reverse(graph.input(x.shape), Axis(3));
  EmitOptions with;
  with.lowering = tpu_lowering({.chip = "TPU v6e"});
  ASSERT_THAT(emit(graph, std::vector{y}, with), ::testing::Not(HasSubstr("stablehlo.reverse")));
  const auto plain = runtime::Program::compile(client(), graph, std::vector{y}, {.kernels = false})
                         .run_on_host(std::vector{x});
  const auto fast = runtime::Program::compile(client(), graph, std::vector{y}, {.emit = with})
                        .run_on_host(std::vector{x});
  EXPECT_EQ(fast[0].bytes, plain[0].bytes);
}

// ---- Texts ----------------------------------------------------------------------------------

/// A small kernel with everything in it: several blocks, parts of them, keys that do not count.
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

// Each of these must show: as an error, or as other numbers.
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
      worst = std::max(difference(wrong[0], right[0]) / largest(right[0]),
                       difference(wrong[1], right[1]) / largest(right[1]));
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
          worst = std::max(worst, difference(wrong[i], right[i]) / largest(right[i]));
        }
      } catch (const Error&) {
        continue;
      }
      EXPECT_GT(worst, 1e-5);
    }
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

}  // namespace
}  // namespace kinema::kernels
