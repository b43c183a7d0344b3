#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "arrays.h"
#include "graph/evaluate.h"
#include "kernels/interpreter/cudnn.h"
#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/lowering.h"
#include "kinema/nn/attention.h"

namespace kinema::kernels {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;
using Kernel = GpuAttention::Kernel;

constexpr const char* kH100 = "NVIDIA H100 80GB HBM3";
constexpr const char* kF8 = "__cudnn$fmhaSoftmaxF8";

/// Root mean square error of e4m3 for numbers of unit size: steps of 2^-3 below each power of two
/// have errors of 2^-3 / sqrt(12), for numbers with a mean square of about 2^2 / (3 ln 2).
constexpr double kRounding = 0.026;

double mean_square(const HostArray& x) {
  double sum = 0;
  for (const float each : x.as<float>()) {
    sum += static_cast<double>(each) * each;
  }
  return sum / static_cast<double>(x.as<float>().size());
}

/// Root mean square of the difference relative to that of `want`; infinity with a NaN.
double relative_error(const HostArray& got, const HostArray& want) {
  HostArray difference = got;
  for (size_t i = 0; i < difference.as<float>().size(); ++i) {
    difference.as<float>()[i] -= want.as<float>()[i];
  }
  const double square = mean_square(difference) / mean_square(want);
  return std::isnan(square) ? std::numeric_limits<double>::infinity() : std::sqrt(square);
}

struct Sizes {
  int64_t batch, queries, keys, heads, width;
};

/// q, k, v and dy of normal numbers in bf16, each times its factor.
std::vector<HostArray> arguments(const Sizes& of, const std::vector<float>& factors) {
  std::vector<HostArray> out;
  for (const int64_t length : {of.queries, of.keys, of.keys, of.queries}) {
    HostArray each = kinema::normal({of.batch, length, of.heads, of.width}, 1 + out.size());
    for (float& x : each.as<float>()) {
      x *= factors[out.size()];
    }
    out.push_back(convert(each, DType::BF16));
  }
  return out;
}

/// y and, if `backward`, dq, dk and dv of attention over all devices, f32 and replicated.
std::vector<Tensor> attend(Graph& graph, const Sizes& of, DType dtype, bool backward,
                           const nn::AttentionOptions& options) {
  const bool alone = options.axes.mesh.axes.empty();
  std::vector<Tensor> given;
  std::vector<Tensor> in;
  for (const int64_t length : {of.queries, of.keys, of.keys, of.queries}) {
    const Shape shape{DType::BF16, {of.batch, length, of.heads, of.width}};
    given.push_back(graph.input(shape, "", alone ? Sharding() : replicated(shape)));
    in.push_back(dtype == shape.dtype ? given.back() : convert(given.back(), dtype));
  }
  std::vector<Tensor> out{nn::attention(in[0], in[1], in[2], options)};
  if (backward) {
    const Tensor loss = sum(convert(out[0], DType::F32) * convert(in[3], DType::F32));
    for (const Tensor gradient : gradients(loss, std::span(given).first(3))) {
      out.push_back(gradient);
    }
  }
  for (Tensor& each : out) {
    each = convert(each, DType::F32);
    each = alone ? each : with_sharding(each, {});
  }
  return out;
}

nn::AttentionOptions flash() { return {.kind = nn::AttentionKind::FLASH}; }

std::vector<HostArray> want(const Sizes& of, const std::vector<HostArray>& given, bool backward) {
  Graph graph;
  return evaluate(graph, attend(graph, of, DType::F32, backward, {}), given);
}

std::vector<HostArray> in_8_bits(const Sizes& of, const std::vector<HostArray>& given,
                                 bool backward, const nn::AttentionOptions& options = flash()) {
  Graph graph;
  const auto outputs = attend(graph, of, DType::BF16, backward, options);
  EmitOptions emit_options;
  emit_options.lowering = interpreter::with_cudnn(gpu_lowering(
      {.chip = kH100, .mesh = !options.axes.mesh.axes.empty(), .attention = {Kernel::CUDNN_FP8}}));
  return HostProgram(graph, outputs, options.axes.mesh, emit_options)(given);
}

std::string text(const Sizes& of, const GpuLoweringOptions& options, bool backward = false,
                 DType dtype = DType::BF16) {
  Graph graph;
  const auto outputs = attend(graph, of, dtype, backward, flash());
  EmitOptions emit_options;
  emit_options.lowering = gpu_lowering(options);
  return emit(graph, outputs, emit_options);
}

GpuLoweringOptions fp8(const char* chip = kH100) {
  return {.chip = chip, .attention = {Kernel::CUDNN_FP8}};
}

class GpuFp8 : public pjrt::CpuTest {};

// Scores are sums over the width of products whose factors each have an error of kRounding: with
// normal q and k sqrt(2) of it, which changes weights by the same relative amount. Weights, v and y
// are rounded too, and since v has random signs, errors add up like the terms of y: in total sqrt(2
// + 3) kRounding of y. Half as much again covers the moments of 1024 numbers.
constexpr double kForward = 1.5 * 2.2361 * kRounding;

TEST_F(GpuFp8, MatchesTheReferenceWithinEightBitRounding) {
  const Sizes of{2, 48, 1024, 2, 64};
  // Scores are equal: without scales of their own the first three would underflow or overflow.
  for (const std::vector<float>& factors :
       {std::vector{1.0F, 1.0F, 1.0F, 1.0F}, std::vector{3000.0F, 1.0F / 3000, 1e-4F, 1.0F},
        std::vector{1e-4F, 1e4F, 1e6F, 1.0F}}) {
    const auto given = arguments(of, factors);
    const auto got = in_8_bits(of, given, false);
    const double error = relative_error(got[0], want(of, given, false)[0]);
    EXPECT_LE(error, kForward);
    EXPECT_GE(error, kRounding) << "nothing was rounded to 8 bits";
  }
}

// The backward pass exponentiates 16-bit scores minus the log-sum-exp of 8-bit ones, and delta uses
// a rounded y: dv has only the former error, dq and dk both, where delta is the remainder of sums
// over the width.
TEST_F(GpuFp8, GivesGradientsIn16Bits) {
  const Sizes of{1, 64, 1024, 1, 64};
  const auto given = arguments(of, {1, 1, 1, 1});
  const auto expected = want(of, given, true);
  const auto got = in_8_bits(of, given, true);
  for (size_t i = 1; i < got.size(); ++i) {
    EXPECT_LE(relative_error(got[i], expected[i]), kForward) << i;
  }
}

TEST_F(GpuFp8, GivesZeroForZeros) {
  const Sizes of{1, 16, 1024, 1, 16};
  EXPECT_EQ(largest(in_8_bits(of, arguments(of, {0, 0, 0, 0}), false)[0]), 0);
}

// Each device has its own scales; ring steps are merged by their log-sum-exp, which adds no error
// to that of one call.
TEST_F(GpuFp8, GivesTheReferenceOnSeveralDevices) {
  const Sizes of{1, 4096, 4096, 4, 16};
  const auto given = arguments(of, {1, 1, 1, 1});
  const auto expected = want(of, given, false);
  const MeshAxes mesh{{{"data", 1}, {"context", 4}}};
  struct Row {
    nn::AttentionKind kind;
    int64_t shards;
  };
  for (const Row& row : {Row{nn::AttentionKind::RING, -1}, Row{nn::AttentionKind::ULYSSES, -1},
                         Row{nn::AttentionKind::ULYSSES_RING, 2}}) {
    const nn::AttentionOptions options{
        .kind = row.kind,
        .axes = {.mesh = mesh, .batch = {"data"}, .sequence = {"context"}},
        .ulysses_shards = row.shards};
    const double error = relative_error(in_8_bits(of, given, false, options)[0], expected[0]);
    EXPECT_LE(error, kForward) << static_cast<int>(row.kind);
    EXPECT_GE(error, kRounding) << static_cast<int>(row.kind);
  }
}

TEST(GpuFp8Text, CallsTheForwardPassOf8BitsAndTheBackwardPassOf16) {
  const std::string both = text({1, 2048, 2048, 4, 128}, fp8(), true);
  EXPECT_THAT(both, HasSubstr(kF8));
  EXPECT_THAT(
      both,
      HasSubstr("(tensor<1x2048x4x128xf8E4M3FN>, tensor<1x2048x4x128xf8E4M3FN>, "
                "tensor<1x2048x4x128xf8E4M3FN>, tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>, "
                "tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>, "
                "tensor<1x1x1x1xf32>) -> (tensor<1x4x2048x128xf8E4M3FN>, tensor<1x1x1x1xf32>, "
                "tensor<1x1x1x1xf32>, tensor<1x4x2048xf32>, tensor<256xui8>)"));
  EXPECT_THAT(both, HasSubstr("__cudnn$fmhaSoftmaxBackward\""));
  // Without a gradient, the log-sum-exp is not written.
  EXPECT_THAT(text({1, 2048, 2048, 4, 128}, fp8()),
              HasSubstr("tensor<1x1x1x1xf32>, tensor<256xui8>)"));
}

TEST(GpuFp8Text, LeavesFewKeysTo16Bits) {
  const std::string cross = text({1, 4096, 512, 4, 128}, fp8());
  EXPECT_THAT(cross, AllOf(HasSubstr("__cudnn$fmhaSoftmax\""), Not(HasSubstr(kF8))));
}

TEST(GpuFp8Text, RefusesInOneLineWithWhatWorks) {
  struct Row {
    Sizes of;
    const char* chip;
    DType dtype;
    const char* why;
  };
  for (const Row& row :
       {Row{{1, 32, 1024, 1, 64},
            "NVIDIA A100-SXM4-80GB",
            DType::BF16,
            "attention_gpu_kernel=cudnn is nearest"},
        Row{{1, 32, 1024, 1, 64},
            "NVIDIA GeForce RTX 4090",
            DType::BF16,
            "attention_gpu_kernel=cudnn is nearest"},
        Row{{1, 32, 1024, 1, 72},
            kH100,
            DType::BF16,
            "the head width is 72, expected a multiple of 16 of at most 256: 80 is nearest"},
        Row{{1, 32, 1024, 1, 160}, "NVIDIA B200", DType::BF16, "at most 128: 128 is nearest"},
        Row{{1, 32, 1024, 1, 64}, kH100, DType::F32, "activations_dtype=bfloat16 is nearest"}}) {
    SCOPED_TRACE(row.why);
    EXPECT_THAT(
        [&] { text(row.of, fp8(row.chip), false, row.dtype); },
        ThrowsMessage<Error>(AllOf(HasSubstr("[kernels] attention_gpu_kernel=cudnn_fp8 on NVIDIA"),
                                   HasSubstr(row.why), Not(HasSubstr("\n")))));
  }
}

}  // namespace
}  // namespace kinema::kernels
