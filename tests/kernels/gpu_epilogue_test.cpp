#include "kinema/kernels/gpu/epilogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "arrays.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/nn/linear.h"
#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::kernels {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

EmitOptions for_gpu(const MeshAxes& mesh = {}) {
  EmitOptions options;
  options.lowering = for_target({.platform = "cuda", .chip = "NVIDIA H100", .mesh = mesh}).lowering;
  return options;
}

/// x [2, 8, 32], w [48, 32], b [48], all f32, rounded to bf16.
std::vector<HostArray> arguments() {
  return {normal({2, 8, 32}, 1), normal({48, 32}, 2), normal({48}, 3)};
}

/// The same, x [2, 8, 48] and gate [samples, 1, 48].
std::vector<HostArray> gated_arguments(int64_t samples) {
  std::vector<HostArray> out = arguments();
  out.push_back(normal({2, 8, 48}, 4));
  out.push_back(normal({samples, 1, 48}, 5));
  return out;
}

/// The layer, optionally followed by GELU, as f32.
Tensor layer(Graph& graph, bool gelu) {
  std::vector<Tensor> in;
  for (const HostArray& each : arguments()) {
    in.push_back(convert(graph.input(each.shape), DType::BF16));
  }
  const Tensor y = nn::linear(in[0], in[1], in[2], Precision::DEFAULT);
  return convert(gelu ? gelu_tanh(y) : y, DType::F32);
}

/// The first line of the program that contains `what`.
std::string line_with(const std::string& text, const std::string& what) {
  const size_t at = text.find(what);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

/// Matches a text with a product whose result is bf16.
testing::Matcher<std::string> has_rounded_product() {
  return HasSubstr("tensor<48x32xbf16>) -> (tensor<2x8x48xbf16>)");
}

TEST(GpuEpilogue, RoundsProductAndBiasAtOnce) {
  Graph graph;
  const std::string text = emit(graph, std::vector{layer(graph, false)}, for_gpu());
  EXPECT_THAT(text, has_rounded_product());
}

TEST(GpuEpilogue, WritesGeluAsTheCompilerKnowsIt) {
  Graph graph;
  const std::string text = emit(graph, std::vector{layer(graph, true)}, for_gpu());
  EXPECT_THAT(text, has_rounded_product());
  EXPECT_THAT(line_with(text, "\"stablehlo.tanh\""), HasSubstr("bf16"));
}

// The product has 32 terms of about 1, so about 6 and up to 25: a bf16 has an error of 2^-9 of it,
// twice if the compiler separates product and sum; GELU's slope is at most 1.13, and its own steps
// round five times.
TEST(GpuEpilogue, GivesWhatTheGraphSays) {
  const pjrt::Client client = pjrt::cpu_client();
  for (const bool gelu : {false, true}) {
    Graph plain;
    Graph fast;
    const std::vector<Tensor> want{layer(plain, gelu)};
    const std::vector<Tensor> got{layer(fast, gelu)};
    const auto a =
        runtime::Program::compile(client, plain, want, {.kernels = false}).run_on_host(arguments());
    const auto b =
        runtime::Program::compile(client, fast, got, {.emit = for_gpu()}).run_on_host(arguments());
    EXPECT_LE(largest_difference(b[0], a[0]), (gelu ? 8 : 3) * 0x1p-9 * largest(a[0]));
  }
}

/// The layer times a gate [samples, 1, 48], plus a value [2, 8, 48].
Tensor gated_layer(Graph& graph, int64_t samples, DType dtype) {
  std::vector<Tensor> in;
  for (const HostArray& each : gated_arguments(samples)) {
    in.push_back(graph.input(each.shape));
  }
  const auto narrow = [&](Tensor x) { return convert(convert(x, DType::BF16), dtype); };
  const Tensor y = nn::linear(narrow(in[0]), narrow(in[1]), narrow(in[2]), Precision::DEFAULT);
  const Tensor sum = nn::as(narrow(in[3]), DType::F32) + nn::as(y, DType::F32) * in[4];
  return nn::as(nn::as(sum, dtype), DType::F32);
}

// Three bf16 roundings: of the product or its weights, of the gate, and of the sum: 3 * 2^-9 of the
// largest value.
TEST(GpuEpilogue, TakesAGateIntoTheWeights) {
  const pjrt::Client client = pjrt::cpu_client();
  for (const int64_t samples : {1, 2}) {
    Graph wide;
    Graph fast;
    const std::vector<Tensor> want{gated_layer(wide, samples, DType::F32)};
    const std::vector<Tensor> got{gated_layer(fast, samples, DType::BF16)};
    const std::string text = emit(fast, got, for_gpu());
    // The gate multiplies the weights, not the values.
    EXPECT_EQ(
        text.find("-> (tensor<48x32xf32>)", text.find("broadcast_in_dim")) != std::string::npos,
        samples == 1)
        << text;
    const auto arguments = gated_arguments(samples);
    const auto a =
        runtime::Program::compile(client, wide, want, {.kernels = false}).run_on_host(arguments);
    const auto b =
        runtime::Program::compile(client, fast, got, {.emit = for_gpu()}).run_on_host(arguments);
    EXPECT_LE(largest_difference(b[0], a[0]), 3 * 0x1p-9 * largest(a[0]));
  }
}

TEST(GpuEpilogue, LeavesValuesWithOtherReaders) {
  Graph graph;
  std::vector<Tensor> in;
  for (const HostArray& each : arguments()) {
    in.push_back(convert(graph.input(each.shape), DType::BF16));
  }
  const Tensor y = dot_general(in[0], in[1], {.lhs_contract = {2}, .rhs_contract = {1}},
                               Precision::DEFAULT, DType::F32) +
                   convert(in[2], DType::F32);
  const std::string text =
      emit(graph, std::vector{convert(y, DType::BF16), gelu_tanh(y)}, for_gpu());
  EXPECT_THAT(text, Not(has_rounded_product()));
}

TEST(GpuEpilogue, LeavesPartitionedPrograms) {
  Graph graph;
  const std::string text = emit(graph, std::vector{layer(graph, true)}, for_gpu({{{"tensor", 4}}}));
  EXPECT_THAT(text, Not(has_rounded_product()));
}

}  // namespace
}  // namespace kinema::kernels
