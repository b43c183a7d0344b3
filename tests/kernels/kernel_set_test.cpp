#include "kinema/kernels/kernel_set.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/scan.h"
#include "kinema/kernels/attention_record.h"
#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/isa.h"
#include "kinema/kernels/settings.h"

namespace kinema::kernels {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

const MeshAxes kFour{{{"data", 4}}};

/// Text with a product and an update, each worth a kernel.
std::string text_with(const KernelSet& set) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {256, 256}});
  const Tensor scalars = graph.input({DType::F32, {5}});
  const std::vector<Tensor> updated =
      fused("adamw", AdamWSettings{0.9, 0.95, 1e-8, 0.1, 0.0}, {x, x, x, x, scalars},
            [](std::span<const Tensor> in) -> std::vector<Tensor> {
              return {in[0] - in[3], in[1], in[2]};
            });
  EmitOptions options;
  options.lowering = set.lowering;
  return emit(graph, std::vector{matmul(x, x), updated[0]}, options);
}

TEST(KernelSet, OfOneCpuDeviceHasKernelsAndWhatTheyAreCalled) {
  if (isa() == Isa::Baseline) {
    GTEST_SKIP() << "this processor has no fast products";
  }
  const KernelSet set = for_target({.platform = "cpu"});
  ASSERT_TRUE(set.lowering);
  const std::string text = text_with(set);
  for (const char* name : {kDotTarget, kAdamWTarget}) {
    EXPECT_THAT(text, HasSubstr(std::string("call_target_name = \"") + name + "\""));
    EXPECT_THAT(set.handlers, Contains(Field(&Handler::name, name)));
  }
  for (const Handler& each : set.handlers) {
    EXPECT_NE(each.handler, nullptr) << each.name;
    EXPECT_EQ(each.platform, "Host") << each.name;
  }
  EXPECT_FALSE(set.flags.contains("xla_cpu_max_isa"))
      << "nothing limits the instruction set of this process";
}

TEST(KernelSet, OfACpuMeshHasNone) {
  const KernelSet set = for_target({.platform = "cpu", .mesh = kFour});
  EXPECT_FALSE(set.lowering);
  EXPECT_THAT(set.handlers, IsEmpty());
}

TEST(KernelSet, OfPlatformsWithoutKernelsIsEmpty) {
  for (const Target& target :
       {Target{.platform = "rocm", .chip = "gfx942"}, Target{.platform = "metal"}}) {
    SCOPED_TRACE(target.platform);
    const KernelSet set = for_target(target);
    EXPECT_FALSE(set.lowering);
    EXPECT_THAT(set.handlers, IsEmpty());
    EXPECT_THAT(set.flags, IsEmpty());
    EXPECT_EQ(working_bytes(target.platform, 1000), 0);
    EXPECT_EQ(temporaries_within(target.platform, 1000), 1000);
  }
}

TEST(KernelSet, OfTpusAndGpusIsALoweringAlone) {
  for (const Target& target : {Target{.platform = "tpu", .chip = "TPU v6e"},
                               Target{.platform = "tpu", .chip = "TPU v6 lite", .mesh = kFour},
                               Target{.platform = "cuda", .chip = "NVIDIA H100 80GB HBM3"},
                               Target{.platform = "cuda", .chip = "h100", .mesh = kFour}}) {
    const KernelSet set = for_target(target);
    EXPECT_TRUE(set.lowering);
    EXPECT_THAT(set.handlers, IsEmpty());
    const bool is_one_gpu = target.platform == "cuda" && target.mesh.axes.empty();
    EXPECT_EQ(set.flags.contains("xla_gpu_enable_triton_gemm"), is_one_gpu);
    EXPECT_EQ(set.flags.size(), is_one_gpu ? 1U : 0U);
    EXPECT_EQ(working_bytes(target.platform, 1000), 0);
  }
}

TEST(KernelSet, HasNoDisabledKernels) {
  const KernelSet set = for_target({.platform = "cpu"}, {.use = false});
  EXPECT_FALSE(set.lowering);
  EXPECT_THAT(text_with(set), Not(HasSubstr("kinema.")));
}

TEST(KernelSet, OfARunThatIsRecordedHasTracedKernels) {
  if (isa() == Isa::Baseline) {
    GTEST_SKIP() << "this processor has no fast products";
  }
  EXPECT_THAT(text_with(for_target({.platform = "cpu"}, {.trace = true})),
              HasSubstr(kTracedDotTarget));
}

/// Attention whose kernels, if any, are found only by settings.
std::string text_with_attention(const KernelSet& set, DType dtype) {
  Graph graph;
  const Tensor q = graph.input({dtype, {1, 64, 2, 64}});
  const Tensor k = graph.input({dtype, {1, 32, 2, 64}});
  const std::vector<Tensor> ys =
      fused("flash_attention", FlashAttentionSettings{.scale = 1.0, .blocks = {}}, {q, k, k},
            [](std::span<const Tensor> in) -> std::vector<Tensor> {
              return {in[0], constant(in[0].graph(), 0.0, {DType::F32, {1, 2, 64}})};
            });
  EmitOptions options;
  options.lowering = set.lowering;
  return emit(graph, ys, options);
}

TEST(KernelSet, RecordsTheKernelOfEachAttention) {
  const auto kernel = [](const Target& target, const KernelOptions& options, DType dtype) {
    const auto attention = std::make_shared<AttentionRecord>();
    KernelSet set = for_target(target, options);
    set.lowering = recorded(std::move(set.lowering), attention);
    text_with_attention(set, dtype);
    EXPECT_EQ(attention->size(), 1U);
    EXPECT_EQ(description(attention->at(0).call),
              fmt::format("forward [1,64,2,64] x 32 {}", to_string(dtype)));
    return attention->at(0).kernel;
  };
  const Target h100{.platform = "cuda", .chip = "NVIDIA H100"};
  EXPECT_EQ(kernel(h100, {}, DType::BF16), "cuDNN");
  EXPECT_EQ(kernel(h100, {}, DType::F32), "blockwise");
  EXPECT_EQ(kernel(h100, {.use = false}, DType::BF16), "blockwise");
  EXPECT_EQ(kernel({.platform = "tpu", .chip = "TPU v6e"}, {}, DType::BF16), "Mosaic");
  EXPECT_EQ(kernel({.platform = "metal"}, {}, DType::BF16), "blockwise");
}

TEST(KernelSet, KeepsGivenFlags) {
  const KernelSet set{.flags = {{"xla_cpu_max_isa", "AVX2"}, {"xla_other", true}}};
  const pjrt::CompileOptions options = set.with_flags({.flags = {{"xla_cpu_max_isa", "SSE4_2"}}});
  EXPECT_EQ(options.flags.at("xla_cpu_max_isa"), pjrt::FlagValue("SSE4_2"));
  EXPECT_EQ(options.flags.at("xla_other"), pjrt::FlagValue(true));
}

TEST(KernelSet, CountsATenthOfACpusTemporariesForKernels) {
  EXPECT_EQ(working_bytes("cpu", 1000), 100);
  EXPECT_EQ(temporaries_within("cpu", 1100), 1000);
}

TEST(FusedKernels, AKernelsNameWithOtherSettingsIsRefused) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {8}});
  const std::vector<Tensor> ys = fused(
      "adamw", 3, {x}, [](std::span<const Tensor> in) { return std::vector<Tensor>{in[0] + 1.0}; });
  EmitOptions options;
  options.lowering = for_target({.platform = "cpu"}).lowering;
  EXPECT_THAT([&] { emit(graph, ys, options); },
              ThrowsMessage<Error>(HasSubstr("fused(\"adamw\") has other settings")));
}

TEST(FusedKernels, ANameThatNoKernelHasIsInlined) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {8}});
  const std::vector<Tensor> ys = fused(
      "mine", 3, {x}, [](std::span<const Tensor> in) { return std::vector<Tensor>{in[0] + 1.0}; });
  EmitOptions options;
  options.lowering = for_target({.platform = "cpu"}).lowering;
  EXPECT_THAT(emit(graph, ys, options), HasSubstr("stablehlo.add"));
}

}  // namespace
}  // namespace kinema::kernels
