#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "arrays.h"
#include "kernels/interpreter/handlers.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/triton_calls.h"
#include "kinema/kernels/gpu/triton_cost.h"
#include "kinema/kernels/gpu/triton_flash.h"
#include "kinema/nn/flash_attention.h"
#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::kernels {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using triton::FlashPass;

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
  int64_t counted = -1;  // valid keys, given at run time; -1: all, known at compile time
};

// Lengths with and without a remainder, one query, one key, some keys masked; one head and several;
// widths that are powers of two and that are not; several blocks along each axis.
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

/// q, k, v, dy in f32, and the number of valid keys.
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
      std::fill(x.begin() + (sample * c.keys + c.counted) * row,
                x.begin() + (sample + 1) * c.keys * row, i == 1 ? 50.0F : -50.0F);
    }
  }
  const int32_t counted[] = {static_cast<int32_t>(c.counted)};
  given.push_back(HostArray::from<int32_t>(DType::S32, {}, counted));
  return given;
}

/// y, lse, dq, dk, dv for inputs rounded to the case's dtype, computed in `dtype`, as f32.
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
  const nn::FlashGradients grads = nn::flash_backward(in[0], in[1], in[2], result.lse, delta, in[3],
                                                      result.y, keys, dtype, options);
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
// bf16: y is a mean of values with 8-bit weights, and rounded: 2^-8. In gradients a difference is
// rounded to 8 bits before it is multiplied: 2^-7. f16 has three bits more. lse is always f32.
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
      // With one key softmax is 1 and the terms of its gradient cancel: sums of up to 300 products
      // of v dy, which is about 11 and up to 40.
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

// ---- Costs in plans -----------------------------------------------------------------------------

/// The backend configuration of the only call in a program, as written in its text.
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
  constexpr double kPairs = 2.0 * 3 * 300 * 512 * 128;  // with padded rows
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

// Its attributes are sorted, and the kernel's text also contains names.
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
