// Compiles programs with GPU kernels with XLA's CUDA plugin, without a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/manual.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/nn/attention.h"
#include "kinema/planning/compile_job.h"
#include "kinema/runtime/client.h"

namespace kinema::planning {
namespace {

using ::testing::Contains;
using ::testing::Field;

/// Needs the plugin from `kinema doctor --install cuda`; tests do not install it.
class GpuCompile : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    runtime::ClientSpec spec;
    spec.hardware = "cuda";
    try {
      plugin_ = runtime::find_plugin(spec);
    } catch (const Error&) {
      GTEST_SKIP() << "the CUDA plugin is not installed: kinema doctor --install cuda";
    }
  }

  /// Compiles attention and, if `backward`, its gradients for `devices` of the chip.
  CompileResult compile(const Shape& shape, int64_t keys, nn::AttentionKind kind, int64_t devices,
                        bool backward, kernels::GpuAttention attention = {}) const {
    const Target target = parse_target(std::string(GetParam()) + ":" + std::to_string(devices));
    const MeshAxes mesh = devices == 1 ? MeshAxes{} : MeshAxes{{{"context", devices}}};
    Graph graph;
    std::vector<Tensor> in;
    for (const int64_t length : {shape.dims[1], keys, keys}) {
      const Shape one{shape.dtype, {shape.dims[0], length, shape.dims[2], shape.dims[3]}};
      const Sharding split{{{}, {"context"}, {}, {}}};
      in.push_back(graph.input(one, "", devices == 1 ? Sharding() : split));
    }
    nn::AttentionOptions options{.kind = kind};
    options.axes.mesh = mesh;
    if (devices > 1) {
      options.axes.sequence = {"context"};
    }
    std::vector<Tensor> outputs{nn::attention(in[0], in[1], in[2], options)};
    if (backward) {
      const Tensor loss = sum(convert(outputs[0], DType::F32));
      for (const Tensor gradient : gradients(loss, in)) {
        outputs.push_back(gradient);
      }
    }
    EmitOptions emit_options;
    emit_options.mesh = mesh;
    for (const Tensor each : outputs) {
      emit_options.output_shardings.push_back(
          {.dims = std::vector<std::vector<std::string>>(each.shape().dims.size())});
    }
    emit_options.lowering =
        kernels::for_target({.platform = "cuda", .chip = target.chip.kind, .mesh = mesh},
                            {.gpu_attention = attention})
            .lowering;
    CompileJob job{
        .target = target, .plugin = plugin_, .program = emit(graph, outputs, emit_options)};
    job.options.partitions = devices;
    return compile_in_child(job, std::filesystem::path(KINEMA_BINARY_DIR) / "kinema");
  }

  std::string plugin_;
};

double calls(const CompileResult& result, const std::string& name) {
  for (const ExpectedTime::Kernel& each : result.expected.kernels) {
    if (each.name == name) {
      return each.count;
    }
  }
  return 0;
}

TEST_P(GpuCompile, TakesCudnnsCalls) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    for (const bool backward : {false, true}) {
      const CompileResult result =
          compile({dtype, {2, 1001, 3, 64}}, 777, nn::AttentionKind::FLASH, 1, backward);
      EXPECT_EQ(calls(result, "flash forward (cuDNN)"), 1);
      EXPECT_EQ(calls(result, "flash backward (cuDNN)"), backward ? 1 : 0);
    }
  }
}

TEST_P(GpuCompile, CountsTheWorkspaceAndCopiesNothing) {
  // Forward and backward of 75,600 tokens: between them y and lse are kept, and dq is summed in f32
  // (A100: twice).
  constexpr int64_t kTensor = int64_t{75600} * 40 * 128 * 2;
  const CompileResult result =
      compile({DType::BF16, {1, 75600, 40, 128}}, 75600, nn::AttentionKind::FLASH, 1, true);
  const bool a100 = std::string(GetParam()) == "a100-80gb";
  EXPECT_GE(result.memory.temporary, (a100 ? 4 : 2) * kTensor);
  EXPECT_LE(result.memory.temporary, (a100 ? 6 : 4) * kTensor);
}

TEST_P(GpuCompile, TakesThemInManualRegions) {
  struct Row {
    nn::AttentionKind kind;
    double hops;
  };
  for (const Row& row : {Row{nn::AttentionKind::ULYSSES, 1}, Row{nn::AttentionKind::RING, 4},
                         Row{nn::AttentionKind::FLASH, 1}}) {
    // 4,093 keys leave the last step of a ring with padding.
    const CompileResult result = compile({DType::BF16, {1, 4093, 8, 128}}, 4093, row.kind, 4, true);
    EXPECT_EQ(calls(result, "flash forward (cuDNN)"), row.hops);
    EXPECT_EQ(calls(result, "flash backward (cuDNN)"), row.hops);
  }
}

TEST_P(GpuCompile, TakesCudnnsCallsOf8BitsWhereTheChipHasThem) {
  constexpr kernels::GpuAttention kFp8{.kernel = kernels::GpuAttention::Kernel::CUDNN_FP8};
  const Shape shape{DType::BF16, {1, 4096, 8, 128}};
  if (std::string(GetParam()) == "a100-80gb") {
    EXPECT_THROW(compile(shape, 4096, nn::AttentionKind::FLASH, 1, false, kFp8), Error);
    return;
  }
  for (const bool backward : {false, true}) {
    const auto alone = compile(shape, 4096, nn::AttentionKind::FLASH, 1, backward, kFp8);
    EXPECT_EQ(calls(alone, "flash forward (cuDNN, FP8)"), 1);
    EXPECT_EQ(calls(alone, "flash backward (cuDNN)"), backward ? 1 : 0);
  }
  for (const auto kind : {nn::AttentionKind::RING, nn::AttentionKind::ULYSSES}) {
    const auto split = compile(shape, 4096, kind, 4, false, kFp8);
    EXPECT_EQ(calls(split, "flash forward (cuDNN, FP8)"), kind == nn::AttentionKind::RING ? 4 : 1);
  }
}

// [8192,5120] x [13824,5120]: 2 x 8192 x 5120 x 13824 FLOP at 79 % of twice the bf16 peak, which
// takes bf16 products twice as long; everything else adds a few reads of operands.
TEST_P(GpuCompile, ComputesQuantizedProductsNatively) {
  const Target target = parse_target(std::string(GetParam()) + ":1");
  const auto seconds = [&](DType dtype, DType result) {
    Graph graph;
    const Tensor x = graph.input({dtype, {8192, 5120}});
    const Tensor w = graph.input({dtype, {13824, 5120}});
    const Tensor y =
        dot_general(x, w, {.lhs_contract = {1}, .rhs_contract = {1}}, Precision::DEFAULT, result);
    CompileJob job{.target = target, .plugin = plugin_, .program = emit(graph, std::vector{y})};
    return compile_in_child(job, std::filesystem::path(KINEMA_BINARY_DIR) / "kinema")
        .expected.busy_seconds;
  };
  if (std::string(GetParam()) != "a100-80gb") {  // which has no narrow products
    EXPECT_LT(seconds(DType::F8E4M3FN, DType::F32), 0.7 * seconds(DType::BF16, DType::F32));
  }
}

INSTANTIATE_TEST_SUITE_P(Chips, GpuCompile, ::testing::Values("a100-80gb", "h100", "h200", "b200"),
                         [](const auto& chip) {
                           const std::string name = chip.param;
                           return name.substr(0, name.find('-'));
                         });

}  // namespace
}  // namespace kinema::planning
