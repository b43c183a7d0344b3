// Attention kernels through the compilers of the chips they are for, which need no chip: `kinema
// doctor --install tpu`. In processes of their own: a text that a compiler does not take may end
// it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/kernels/tpu/tile_trials.h"
#include "kinema/nn/flash_attention.h"
#include "kinema/planning/compile_job.h"
#include "kinema/planning/kernel_cycles.h"
#include "kinema/runtime/client.h"

namespace kinema::planning {
namespace {

struct KernelCase {
  int64_t batch, queries, keys, heads, width;
  DType dtype = DType::BF16;
  bool counted = false;  // how many keys count is said while the program runs
  bool fused = false;    // one backward kernel
};

constexpr KernelCase kCases[] = {
    {1, 3000, 1500, 2, 128},
    {1, 700, 512, 2, 256, DType::BF16, true, true},
    {1, 600, 300, 1, 64, DType::F32, true},
};

std::string name_of(const KernelCase& c) {
  return fmt::format("{} [{},{},{},{}] x {} keys{}{}", to_string(c.dtype), c.batch, c.queries,
                     c.heads, c.width, c.keys, c.counted ? ", some of them count" : "",
                     c.fused ? ", fused" : "");
}

/// Forward and backward.
std::string program(const KernelCase& c, const Target& target, size_t& kernels) {
  Graph graph;
  const auto input = [&](int64_t length) {
    return graph.input({c.dtype, {c.batch, length, c.heads, c.width}});
  };
  const Tensor q = input(c.queries);
  const Tensor k = input(c.keys);
  const Tensor v = input(c.keys);
  const Tensor dy = input(c.queries);
  const Tensor keys = c.counted ? graph.input({DType::S32, {}}) : Tensor();
  nn::FlashOptions flash{.scale = 1.0 / std::sqrt(static_cast<double>(c.width))};
  flash.blocks = kernels::best_block_sizes(target.chip.kind, c.keys);
  flash.blocks.use_fused_bwd_kernel = c.fused;
  flash.blocks.asked = true;
  const nn::FlashResult y = nn::flash_forward(q, k, v, keys, c.dtype, flash);
  const Tensor delta = nn::flash_delta(y.y, dy);
  const nn::FlashGradients grads =
      nn::flash_backward(q, k, v, y.lse, delta, dy, y.y, keys, c.dtype, flash);
  const auto texts = std::make_shared<std::vector<kernels::KernelText>>();
  const kernels::KernelSet set = kernels::for_target(
      {.platform = target.platform(), .chip = target.chip.kind}, {.texts = texts});
  const std::vector<Tensor> outputs{y.y, y.lse, grads.dq, grads.dk, grads.dv};
  std::string text = emit(graph, outputs, {.lowering = set.lowering});
  kernels = texts->size();
  return text;
}

class TpuKernels : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    runtime::ClientSpec spec;
    spec.hardware = "tpu";
    try {
      plugin_ = runtime::find_plugin(spec);
    } catch (const Error&) {
      GTEST_SKIP() << "libtpu is not installed: kinema doctor --install tpu";
    }
  }
  std::string plugin_;
};

TEST_P(TpuKernels, Compile) {
  const Target target = parse_target(GetParam());
  for (const KernelCase& c : kCases) {
    size_t kernels = 0;
    CompileJob job{.target = target, .plugin = plugin_, .program = program(c, target, kernels)};
    EXPECT_EQ(kernels, c.fused ? 2 : 3) << name_of(c);
    try {
      const CompileResult result = compile_in_child(job, KINEMA_PROGRAM);
      EXPECT_FALSE(result.expected.kernels.empty()) << name_of(c);
    } catch (const Error& error) {
      ADD_FAILURE() << name_of(c) << ": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryChip, TpuKernels,
                         ::testing::Values("v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2",
                                           "tpu7x:2x2x1"),
                         [](const auto& info) {
                           const std::string target = info.param;
                           return target.substr(0, target.find(':'));
                         });

TEST_F(TpuKernels, StaticCyclesGrowWithTheWork) {
  const auto seconds = [&](int64_t keys) {
    const kernels::AttentionCall call{.q = {DType::BF16, {1, 1024, 2, 128}},
                                      .k = {DType::BF16, {1, keys, 2, 128}},
                                      .result = DType::BF16};
    const Target target = parse_target("v6e:2x2");
    const auto trials =
        kernels::tile_trials(call, kernels::FlashPass::FORWARD, target.chip.kind, false);
    return kernel_cycles(trials.front(),
                         {.target = target, .plugin = plugin_, .program = KINEMA_PROGRAM})
        .cycles;
  };
  const double few = seconds(8192);
  EXPECT_GT(few, 1e4);
  EXPECT_NEAR(seconds(16384) / few, 2.0, 0.1);
}

}  // namespace
}  // namespace kinema::planning
