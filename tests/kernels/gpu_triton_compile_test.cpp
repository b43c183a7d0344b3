// The Triton kernels, compiled for absent GPUs by the CUDA plugin's compiler; skipped if that
// plugin is not installed (`kinema doctor --install cuda`).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/triton_calls.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/nn/flash_attention.h"
#include "kinema/nn/rope.h"
#include "kinema/planning/compile_job.h"
#include "kinema/runtime/client.h"

namespace kinema::kernels {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kProgram = KINEMA_BINARY_DIR "/kinema";

struct Case {
  int64_t batch, queries, keys, heads, width;
  DType dtype;
  bool counted;
};

/// Attention and its gradients for a chip: all three kernels.
std::string text_of(const Case& c, const std::string& chip) {
  Graph graph;
  const Shape q{c.dtype, {c.batch, c.queries, c.heads, c.width}};
  const Shape k{c.dtype, {c.batch, c.keys, c.heads, c.width}};
  const Tensor queries = graph.input(q);
  const Tensor keys = graph.input(k);
  const Tensor values = graph.input(k);
  const Tensor dy = graph.input(q);
  const Tensor counted = c.counted ? graph.input({DType::S32, {}}) : Tensor();
  const nn::FlashOptions options{.scale = 0.1};
  const nn::FlashResult result =
      nn::flash_forward(queries, keys, values, counted, c.dtype, options);
  const nn::FlashGradients grads =
      nn::flash_backward(queries, keys, values, result.lse, nn::flash_delta(result.y, dy), dy,
                         result.y, counted, c.dtype, options);
  EmitOptions emit_options;
  emit_options.lowering = triton_lowering({.chip = chip});
  return emit(graph, std::vector{result.y, grads.dq, grads.dk, grads.dv}, emit_options);
}

class GpuTritonCompiles : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    plugin_ = runtime::installed_plugin("cuda");
    if (plugin_.empty()) {
      GTEST_SKIP() << "the CUDA plugin is not installed in " << runtime::cache_folder();
    }
    if (!std::filesystem::exists(kProgram)) {
      GTEST_SKIP() << kProgram << ", whose child compiles, is not built";
    }
  }

  planning::CompileResult compile(const std::string& program) const {
    const planning::Target target = planning::parse_target(GetParam());
    return planning::compile_in_child({.target = target, .plugin = plugin_, .program = program},
                                      kProgram);
  }

  std::string plugin_;
};

TEST_P(GpuTritonCompiles, NormAndRotation) {
  for (const Shape& y : {Shape{DType::BF16, {2, 32760, 40, 128}}, Shape{DType::F16, {1, 77, 3, 12}},
                         Shape{DType::F32, {1, 6, 12, 64}}}) {
    Graph graph;
    const Tensor x = graph.input({y.dtype, {y.dims[0], y.dims[1], y.dims[2] * y.dims[3]}});
    const Tensor weight = graph.input({DType::F32, {x.dim(2)}});
    const Shape table{DType::F32, {y.dims[1], 1, y.dims[3] / 2, 2}};
    const nn::Rope rope{.cos = graph.input(table), .sin = graph.input(table)};
    const std::vector<Tensor> out{nn::norm_and_rotate(x, weight, 1e-6, y.dims[2], rope)};
    EmitOptions emit_options;
    emit_options.lowering =
        for_target({.platform = "cuda", .chip = planning::parse_target(GetParam()).chip.kind})
            .lowering;
    const std::string text = emit(graph, out, emit_options);
    ASSERT_THAT(text, HasSubstr("rms_norm_rotate_s"));
    EXPECT_NO_THROW(compile(text)) << to_string(y);
  }
}

TEST_P(GpuTritonCompiles, EveryKernel) {
  const std::string kind = planning::parse_target(GetParam()).chip.kind;
  for (const Case& c :
       {Case{1, 75600, 75600, 40, 128, DType::BF16, false},
        Case{2, 1001, 777, 3, 100, DType::BF16, true}, Case{1, 512, 300, 4, 64, DType::F16, false},
        Case{1, 130, 200, 2, 256, DType::BF16, false}, Case{1, 300, 77, 2, 64, DType::F32, true}}) {
    const std::string name = fmt::format("[{}, {}, {}, {}] x {} {}", c.batch, c.queries, c.heads,
                                         c.width, c.keys, to_string(c.dtype));
    const std::string text = text_of(c, kind);
    ASSERT_THAT(text, HasSubstr("flash_backward_dq_b")) << name;
    try {
      const planning::CompileResult result = compile(text);
      // Besides its results a program has lse, delta and no scores.
      const int64_t rows = c.batch * c.queries * c.heads;
      EXPECT_LE(result.memory.temporary, rows * (c.width + 4) * 4 + (1 << 20)) << name;
    } catch (const Error& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

// Hence a kernel is tried in a separate process.
TEST_P(GpuTritonCompiles, AndACompilerCrashIsAnError) {
  const std::string kind = planning::parse_target(GetParam()).chip.kind;
  std::string text = text_of({1, 128, 128, 1, 64, DType::BF16, false}, kind);
  const std::string warps = "num_warps = 8";
  const size_t at = text.find(warps);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, warps.size(), "num_warps = 6");
  EXPECT_THROW(compile(text), Error);
}

INSTANTIATE_TEST_SUITE_P(Chips, GpuTritonCompiles,
                         ::testing::Values("a100:1", "h100:1", "h200:1", "b200:1", "rtx4090:1",
                                           "rtx5090:1"));

}  // namespace
}  // namespace kinema::kernels
