#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "arrays.h"
#include "kernels/interpreter/handlers.h"
#include "kernels/interpreter/mosaic.h"
#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/tpu/flash_calls.h"
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

// ---- Whole calls with the operations around the kernels, run on the CPU client ---------------

struct Case {
  int64_t batch, queries, keys, heads, width;
  DType dtype = DType::F32;
  int64_t counted = -1;  // valid keys, given at run time; -1: all, known at compile time
  FlashBlockSizes blocks = {};
  bool base2 = true;
  FlashMaximum maximum = FlashMaximum::RUNNING;
  bool beyond = false;  // the last head has scores of up to 280 powers of two
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

// Lengths with and without a remainder, one key, none, one head; narrow and wide heads; several
// blocks along each axis and several parts per block; both bases, both backward forms.
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
  // Half of them with both forms: heads within the bound, next to one beyond it if there are
  // several, and without one if it would be in every tile.
  for (size_t i = 0, count = all.size(); i < count; ++i) {
    Case c = all[i];
    const bool several = c.blocks.heads_per_tile > 1;
    if (i % 2 != 0 && !several) {
      continue;
    }
    c.maximum = FlashMaximum::EITHER;
    c.beyond = c.heads > 1;
    all.push_back(c);
    if (several) {
      c.beyond = false;
      all.push_back(c);
    }
  }
  return all;
}

std::string name_of(const Case& c) {
  return fmt::format("[{}, {}, {}, {}] x {}, {} count, {}, {} / {} / {}{}{}{}{}", c.batch,
                     c.queries, c.heads, c.width, c.keys, c.counted, to_string(c.dtype),
                     c.blocks.block_q, c.blocks.block_kv, c.blocks.block_kv_compute,
                     c.blocks.use_fused_bwd_kernel ? ", fused" : "", c.base2 ? "" : ", base e",
                     c.maximum == FlashMaximum::RUNNING ? "" : ", fixed maximum",
                     c.beyond ? ", one head beyond the bound" : "");
}

/// q, k, v, dy and the number of valid keys.
std::vector<HostArray> arguments(const Case& c) {
  std::vector<HostArray> given{kinema::normal({c.batch, c.queries, c.heads, c.width}, 1),
                               kinema::normal({c.batch, c.keys, c.heads, c.width}, 2),
                               kinema::normal({c.batch, c.keys, c.heads, c.width}, 3),
                               kinema::normal({c.batch, c.queries, c.heads, c.width}, 4)};
  // Masked values must not matter, however large they are.
  for (size_t i = 1; c.counted >= 0 && i < 3; ++i) {
    const auto x = given[i].as<float>();
    const int64_t row = c.heads * c.width;
    for (int64_t sample = 0; sample < c.batch; ++sample) {
      const auto from = x.begin() + (sample * c.keys + c.counted) * row;
      std::fill(from, x.begin() + (sample + 1) * c.keys * row, i == 1 ? 50.0F : -50.0F);
    }
  }
  // A head whose queries are long and point in the directions of keys.
  const int64_t keys = c.counted > 0 ? c.counted : c.keys;
  for (int64_t row = 0; c.beyond && row < c.batch * c.queries; ++row) {
    const int64_t sample = row / c.queries;
    const int64_t key = sample * c.keys + row % c.queries % keys;
    const auto k = given[1].as<float>().subspan((key * c.heads + c.heads - 1) * c.width);
    const auto q = given[0].as<float>().subspan((row * c.heads + c.heads - 1) * c.width);
    const float factor = 16.0F * std::sqrt(128.0F / static_cast<float>(c.width));
    std::transform(k.begin(), k.begin() + c.width, q.begin(), [&](float x) { return factor * x; });
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

EmitOptions interpreted(const std::string& chip, FlashMaximum maximum = FlashMaximum::RUNNING) {
  EmitOptions options;
  options.lowering = interpreter::interpreting(tpu_lowering({.chip = chip, .maximum = maximum}));
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
// bf16: y is a mean of values with 8-bit weights, and rounded: 2^-8. In gradients a difference is
// rounded to 8 bits before it is multiplied: 2^-7. lse is f32 in both.
TEST_P(TpuFlash, IsTheReference) {
  constexpr const char* kTensors[] = {"y", "lse", "dq", "dk", "dv"};
  constexpr int kParts = 4;
  const std::vector<Case> all = cases();
  ASSERT_GE(all.size(), 60U);
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
    const EmitOptions emit_options = interpreted("TPU v5p", c.maximum);
    ASSERT_THAT(emit(fast, outputs, emit_options), HasSubstr(interpreter::kMosaicTarget));
    const auto got = runtime::Program::compile(client(), fast, outputs, {.emit = emit_options})
                         .run_on_host(given);
    for (size_t t = 0; t < got.size(); ++t) {
      const bool exact = c.dtype == DType::F32 || t == 1;
      // With one key softmax is 1 and the terms of its gradient cancel: sums of up to 300 products
      // of v dy, which is about 11 and up to 40. Scores of 280 and their lse have rounding errors
      // of 2^-24, and weights computed from both, times a dy of 4, of 3e-5 relative.
      const bool cancels = t >= 2 && (c.keys == 1 || c.counted == 1);
      const double at_least = t >= 2 && c.beyond ? 64.0 : cancels ? 16.0 : 1.0;
      const double scale = std::max(largest(want[t]), at_least);
      // Without a maximum a row's largest weight is not 1 and is rounded too: 2^-8 more of y.
      const bool either = c.maximum == FlashMaximum::EITHER;
      EXPECT_LE(difference(got[t], want[t]), (exact               ? 2e-6
                                              : t == 0 && !either ? 0x1p-8
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
  for (const FlashMaximum maximum : {FlashMaximum::RUNNING, FlashMaximum::EITHER}) {
    const auto got = runtime::Program::compile(client(), graph, outputs,
                                               {.emit = interpreted("TPU v6e", maximum)})
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

// ---- Tiles of heads that need no maximum -----------------------------------------------------

/// tiles_within_bound of q and k, f32 [1, 3, 4, 16], with these norms per head.
std::vector<int32_t> within_bound(std::vector<float> q_norms, std::vector<float> k_norms,
                                  int64_t heads_per_tile, int32_t counted) {
  const auto rows = [](const std::vector<float>& norms) {
    HostArray out(Shape{DType::F32, {1, 3, 4, 16}});
    for (size_t i = 0; i < norms.size(); ++i) {
      out.as<float>()[16 * i + i % 16] = norms[i];
    }
    return out;
  };
  const int32_t counts[] = {counted};
  const std::vector<HostArray> given{rows(q_norms), rows(k_norms),
                                     HostArray::from<int32_t>(DType::S32, {}, counts)};
  Graph graph;
  const Tensor q = graph.input(given[0].shape);
  const Tensor k = graph.input(given[1].shape);
  const Tensor keys = graph.input(given[2].shape);
  // The bound is in powers of two: 100 in the units of q k.
  const FlashWork work{
      .heads = 4, .scale = 0.5 / std::numbers::log2e, .heads_per_tile = heads_per_tile};
  const std::vector<Tensor> flags{tiles_within_bound(q, k, keys, work)};
  const auto out =
      runtime::Program::compile(client(), graph, flags, {.kernels = false}).run_on_host(given)[0];
  return {out.as<int32_t>().begin(), out.as<int32_t>().end()};
}

TEST(TilesWithinBound, GoByTheLongestQueryAndKeyThatCounts) {
  using ::testing::ElementsAre;
  // Rows of four heads: the longest query and the longest key of a head are at different positions.
  const std::vector<float> q{9, 1, 1, 1, 1, 10.1F, 1, 1, 1, 1, 9.9F, 0};
  const std::vector<float> k{1, 1, 10, 1, 11, 10, 1, 1, 1, 1, 1, 1e30F};
  EXPECT_THAT(within_bound(q, k, 1, 3), ElementsAre(1, 0, 1, 0));  // 99, 101, 99, infinite squares
  EXPECT_THAT(within_bound(q, k, 1, 2), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(within_bound(q, k, 2, 3), ElementsAre(0, 0));  // all heads of a tile must be within
  EXPECT_THAT(within_bound(q, k, 2, 2), ElementsAre(0, 1));
  EXPECT_THAT(within_bound(q, k, 4, 2), ElementsAre(0));
  EXPECT_THAT(within_bound(q, k, 1, 0),
              ElementsAre(0, 0, 0, 0));  // a row without keys is never within
}

// The purpose of the bound: without it the same head is wrong, and the result shows it.
TEST(TilesWithinBound, AreAllThatAFixedMaximumIsRightFor) {
  Case c{1, 128, 200, 2, 128, DType::F32, -1, blocks(128, 128, 128)};
  c.beyond = true;
  const std::vector<HostArray> given = arguments(c);
  Graph graph;
  const auto outputs = build(graph, c, given, c.dtype);
  const auto run = [&](FlashMaximum maximum) {
    return runtime::Program::compile(client(), graph, outputs,
                                     {.emit = interpreted("TPU v6e", maximum)})
        .run_on_host(given);
  };
  const auto want = run(FlashMaximum::RUNNING);
  const auto got = run(FlashMaximum::EITHER);
  const auto without_bound = run(FlashMaximum::FIXED);
  for (const size_t tensor : {0, 1}) {
    EXPECT_LE(difference(got[tensor], want[tensor]), 2e-6 * largest(want[tensor]));
    EXPECT_GT(difference(without_bound[tensor], want[tensor]), 1e3 * largest(want[tensor]));
  }
}

TEST(TilesWithinBound, AreAskedForWhereThatPays) {
  const auto text = [](const char* chip, int64_t keys) {
    Graph graph;
    const Case c{1, 256, keys, 2, 128, DType::BF16};
    const auto outputs = build(graph, c, arguments(c), c.dtype);
    EmitOptions emit_options;
    emit_options.lowering = tpu_lowering({.chip = chip});
    return emit(graph, outputs, emit_options);
  };
  EXPECT_THAT(text("TPU v6 lite", 4096), HasSubstr("flash_forward_fixed_256"));
  EXPECT_THAT(text("TPU v6e", 512), HasSubstr("flash_forward_512"));
  EXPECT_THAT(text("TPU v5p", 4096), HasSubstr("flash_forward_256"));
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

}  // namespace
}  // namespace kinema::kernels
