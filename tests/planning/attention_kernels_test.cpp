// Compiles attention kernels with the compilers of their chips, which need no chip: `kinema doctor
// --install tpu`. In child processes, because a compiler may abort on a text that it does not
// support.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/collecting.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/kernels/tpu/tile_candidates.h"
#include "kinema/nn/flash_attention.h"
#include "kinema/planning/compile_job.h"
#include "kinema/planning/kernel_cycles.h"
#include "kinema/runtime/client.h"

namespace kinema::planning {
namespace {

struct KernelCase {
  const char* name;
  int64_t queries, keys, heads, width;
  DType dtype = DType::BF16;
  bool counted = false;  // the number of valid keys is given at run time
  bool backward = true;
  bool fused = false;  // one backward kernel
  int64_t heads_per_tile = 1;
};

// Every kernel in both dtypes and every width, with and without a mask; the chip's own tiles.
// Lengths of several blocks with a partial last one, or short ones of one block, since kernels with
// large tiles take most of the compile time.
constexpr KernelCase kCases[] = {
    {"long", 9000, 4500, 2, 128},
    {"long, forward alone", 9000, 4500, 2, 128, DType::BF16, true, false},
    {"text", 3000, 512, 4, 128, DType::BF16, false, true, false, 2},
    {"narrow, masked", 700, 300, 2, 64, DType::BF16, true},
    {"wide, masked, fused", 700, 512, 2, 256, DType::BF16, true, true, true},
    {"wide", 600, 700, 2, 256},
    {"f32, narrow, masked", 600, 300, 1, 64, DType::F32, true},
    {"f32, forward alone", 300, 200, 1, 128, DType::F32, false, false},
    {"f32, wide, fused", 300, 200, 2, 256, DType::F32, false, true, true, 2},
};

/// Number of kernels in one attention call.
size_t kernels_of(const KernelCase& c) { return !c.backward ? 1 : c.fused ? 2 : 3; }

/// The forward pass, and the backward pass if the case has one.
std::string program(const KernelCase& c, const Target& target, size_t& kernels) {
  Graph graph;
  const auto input = [&](int64_t length) {
    return graph.input({c.dtype, {1, length, c.heads, c.width}});
  };
  const Tensor q = input(c.queries);
  const Tensor k = input(c.keys);
  const Tensor v = input(c.keys);
  const Tensor keys = c.counted ? graph.input({DType::S32, {}}) : Tensor();
  nn::FlashOptions flash{.scale = 1.0 / std::sqrt(static_cast<double>(c.width))};
  flash.blocks = kernels::best_block_sizes(target.chip.kind, c.keys);
  flash.blocks.use_fused_bwd_kernel = c.fused;
  flash.blocks.heads_per_tile = c.heads_per_tile;
  flash.blocks.asked = true;
  const nn::FlashResult y = nn::flash_forward(q, k, v, keys, c.dtype, flash);
  std::vector<Tensor> outputs{y.y};
  if (c.backward) {
    const Tensor dy = input(c.queries);
    const nn::FlashGradients grads =
        nn::flash_backward(q, k, v, y.lse, nn::flash_delta(y.y, dy), dy, y.y, keys, c.dtype, flash);
    outputs.insert(outputs.end(), {grads.dq, grads.dk, grads.dv});
  }
  const auto texts = std::make_shared<std::vector<kernels::KernelText>>();
  const kernels::KernelSet set =
      kernels::for_target({.platform = target.platform(), .chip = target.chip.kind});
  std::string text = emit(graph, outputs, {.lowering = kernels::collecting(set.lowering, texts)});
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
    SCOPED_TRACE(c.name);
    size_t kernels = 0;
    const CompileJob job{
        .target = target, .plugin = plugin_, .program = program(c, target, kernels)};
    EXPECT_EQ(kernels, kernels_of(c));
    try {
      const CompileResult result = compile_in_child(job, KINEMA_PROGRAM);
      EXPECT_EQ(result.expected.kernels.size(), kernels_of(c)) << "each is known to plans";
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
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
        kernels::tile_candidates(call, kernels::FlashPass::FORWARD, target.chip.kind, false);
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
