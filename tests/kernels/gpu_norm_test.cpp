#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "arrays.h"
#include "kernels/interpreter/handlers.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/triton_norm.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/nn/rope.h"
#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::kernels {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

EmitOptions interpreted(const MeshAxes& mesh = {}) {
  EmitOptions options;
  options.lowering = interpreter::interpreting(
      for_target({.platform = "cuda", .chip = "NVIDIA H100", .mesh = mesh}).lowering);
  return options;
}

struct Case {
  int64_t batch;
  std::array<int64_t, 3> grid;
  int64_t heads, width;
  DType dtype;

  int64_t tokens() const { return grid[0] * grid[1] * grid[2]; }
};

std::vector<HostArray> arguments(const Case& c) {
  return {normal({c.batch, c.tokens(), c.heads * c.width}, 1), normal({c.heads * c.width}, 2)};
}

Tensor build(Graph& graph, const Case& c) {
  const Tensor x = graph.input({DType::F32, {c.batch, c.tokens(), c.heads * c.width}});
  const Tensor weight = graph.input({DType::F32, {c.heads * c.width}});
  const nn::Rope rope = nn::rope_3d(graph, c.grid, c.width);
  const Tensor narrow = x.dtype() == c.dtype ? x : convert(x, c.dtype);
  const Tensor y = nn::norm_and_rotate(narrow, weight, 1e-6, c.heads, rope);
  return y.dtype() == DType::F32 ? y : convert(y, DType::F32);
}

// Everything is computed in f32 in another order: sums of up to 320 squares, 1e-6 of the largest
// value; rounded to bf16, 2^-8 of it if both sides round to different neighbours, to f16 2^-11.
TEST(GpuNorm, IsTheReference) {
  for (const Case& c :
       {Case{1, {1, 2, 3}, 4, 16, DType::F32}, Case{2, {2, 2, 3}, 2, 16, DType::F32},
        Case{2, {1, 3, 2}, 5, 64, DType::F32}, Case{1, {2, 1, 2}, 3, 12, DType::F32},
        Case{2, {1, 2, 2}, 1, 128, DType::F32}, Case{2, {2, 2, 3}, 5, 64, DType::BF16},
        Case{1, {1, 1, 1}, 3, 12, DType::BF16}, Case{2, {1, 2, 3}, 2, 32, DType::F16}}) {
    SCOPED_TRACE(fmt::format("[{}, {}, {}, {}] {}", c.batch, c.tokens(), c.heads, c.width,
                             to_string(c.dtype)));
    Graph plain;
    Graph fast;
    const std::vector<Tensor> want{build(plain, c)};
    const std::vector<Tensor> got{build(fast, c)};
    ASSERT_THAT(emit(fast, got, interpreted()), HasSubstr(interpreter::kTritonTarget));
    const auto a = runtime::Program::compile(client(), plain, want, {.kernels = false})
                       .run_on_host(arguments(c));
    const auto b = runtime::Program::compile(client(), fast, got, {.emit = interpreted()})
                       .run_on_host(arguments(c));
    const double limit = c.dtype == DType::F32 ? 1e-6 : c.dtype == DType::F16 ? 0x1p-11 : 0x1p-8;
    EXPECT_LE(largest_difference(b[0], a[0]), limit * largest(a[0]));
  }
}

TEST(GpuNorm, LeavesUnsupportedShapes) {
  for (const DType dtype : {DType::F64, DType::BF16}) {
    const int64_t heads = dtype == DType::F64 ? 4 : 400;
    Graph graph;
    const Tensor x = graph.input({dtype, {1, 6, heads * 128}});
    const Tensor weight =
        graph.input({dtype == DType::F64 ? DType::F64 : DType::F32, {heads * 128}});
    const nn::Rope rope = nn::rope_3d(graph, {1, 2, 3}, 128);
    const Tensor y = nn::norm_and_rotate(x, weight, 1e-6, heads, rope);
    EXPECT_THAT(emit(graph, std::vector{y}, interpreted()), Not(HasSubstr("custom_call")));
  }
}

TEST(GpuNorm, IsLeftToTheCompilerWhereItIsSwitchedOff) {
  Graph graph;
  const std::vector<Tensor> y{build(graph, {1, {1, 2, 3}, 4, 16, DType::BF16})};
  EmitOptions options;
  options.lowering =
      for_target({.platform = "cuda", .chip = "NVIDIA H100"}, {.norm_rotation = false}).lowering;
  EXPECT_THAT(emit(graph, y, options), Not(HasSubstr("custom_call")));
}

TEST(GpuNorm, LeavesPartitionedPrograms) {
  Graph graph;
  const Case c{1, {1, 2, 3}, 4, 16, DType::BF16};
  const std::vector<Tensor> y{build(graph, c)};
  EXPECT_THAT(emit(graph, y, interpreted({{{"data", 4}}})), Not(HasSubstr("custom_call")));
}

}  // namespace
}  // namespace kinema::kernels
