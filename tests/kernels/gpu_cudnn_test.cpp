#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "arrays.h"
#include "graph/evaluate.h"
#include "kernels/interpreter/cudnn.h"
#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/custom_call.h"
#include "kinema/graph/manual.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/lowering.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/flash_attention.h"

namespace kinema::kernels {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;
using Kernel = GpuAttention::Kernel;

constexpr const char* kH100 = "NVIDIA H100 80GB HBM3";

struct Case {
  int64_t batch, queries, keys, heads, width;
  DType dtype = DType::BF16;
  int64_t counted = -1;  // valid keys, given at run time; -1: all
};

std::string name_of(const Case& c) {
  return fmt::format("[{}, {}, {}, {}] x {}, {} count, {}", c.batch, c.queries, c.heads, c.width,
                     c.keys, c.counted, to_string(c.dtype));
}

/// q, k, v, dy and the number of valid keys.
std::vector<HostArray> arguments(const Case& c) {
  std::vector<HostArray> given{kinema::normal({c.batch, c.queries, c.heads, c.width}, 1),
                               kinema::normal({c.batch, c.keys, c.heads, c.width}, 2),
                               kinema::normal({c.batch, c.keys, c.heads, c.width}, 3),
                               kinema::normal({c.batch, c.queries, c.heads, c.width}, 4)};
  for (HostArray& each : given) {
    each = convert(each, c.dtype);
  }
  const int32_t counted[] = {static_cast<int32_t>(c.counted)};
  given.push_back(HostArray::from<int32_t>(DType::S32, {}, counted));
  return given;
}

/// y, lse, dq, dk, dv; computed in `dtype`, returned in `result`, for the inputs of `arguments`.
std::vector<Tensor> build(Graph& graph, const Case& c, DType dtype, DType result) {
  std::vector<Tensor> in;
  for (const int64_t length : {c.queries, c.keys, c.keys, c.queries}) {
    const Tensor x = graph.input({c.dtype, {c.batch, length, c.heads, c.width}});
    in.push_back(x.dtype() == dtype ? x : convert(x, dtype));
  }
  in.push_back(graph.input({DType::S32, {}}));
  const nn::FlashOptions options{.scale = 1.0 / std::sqrt(static_cast<double>(c.width)),
                                 .precision = Precision::HIGHEST};
  const Tensor keys = c.counted >= 0 ? in[4] : Tensor();
  const nn::FlashResult y = nn::flash_forward(in[0], in[1], in[2], keys, result, options);
  const Tensor rounded = result == dtype ? y.y : convert(y.y, dtype);
  const nn::FlashGradients grads =
      nn::flash_backward(in[0], in[1], in[2], y.lse, nn::flash_delta(rounded, in[3]), in[3],
                         rounded, keys, result, options);
  return {y.y, y.lse, grads.dq, grads.dk, grads.dv};
}

std::string text(const Case& c, const GpuLoweringOptions& options) {
  Graph graph;
  const auto outputs = build(graph, c, c.dtype, c.dtype);
  EmitOptions emit_options;
  emit_options.lowering = gpu_lowering(options);
  return emit(graph, outputs, emit_options);
}

EmitOptions as_cudnn(const GpuLoweringOptions& options) {
  EmitOptions out;
  out.lowering = interpreter::with_cudnn(gpu_lowering(options));
  return out;
}

double difference(const HostArray& got, const HostArray& want) {
  return largest_difference(convert(got, DType::F32), convert(want, DType::F32));
}

// ---- Values, by cuDNN's documentation of its calls -------------------------------------------

class GpuCudnn : public pjrt::CpuTest {};

// y and gradients are rounded once, to 8 bits (bf16) or 11 (f16), as is the y in delta: the
// reference's products are exact. lse is f32 in both.
TEST_F(GpuCudnn, GivesTheReference) {
  constexpr const char* kTensors[] = {"y", "lse", "dq", "dk", "dv"};
  for (const Case& c :
       {Case{1, 128, 128, 1, 128}, Case{2, 100, 77, 3, 64}, Case{1, 33, 60, 2, 256},
        Case{1, 40, 50, 1, 72}, Case{1, 1, 30, 2, 8}, Case{1, 30, 1, 2, 8},
        Case{2, 64, 48, 2, 64, DType::F16}, Case{1, 40, 64, 2, 32, DType::BF16, 64},
        Case{2, 40, 64, 2, 32, DType::BF16, 30}, Case{1, 40, 64, 2, 32, DType::BF16, 1}}) {
    SCOPED_TRACE(name_of(c));
    const std::vector<HostArray> given = arguments(c);
    Graph plain;
    const auto want = evaluate(plain, build(plain, c, DType::F32, DType::F32), given);
    // With results in their own dtype, and in f32 as `ring` requests them.
    for (const DType result : {c.dtype, DType::F32}) {
      Graph graph;
      const auto outputs = build(graph, c, c.dtype, result);
      const auto got = HostProgram(graph, outputs, {}, as_cudnn({.chip = kH100}))(given);
      for (size_t t = 0; t < got.size(); ++t) {
        const double rounding = t == 1 ? 2e-6 : c.dtype == DType::F16 ? 0x1p-10 : 0x1p-7;
        EXPECT_LE(difference(got[t], want[t]), rounding * std::max(largest(want[t]), 1.0))
            << kTensors[t];
        EXPECT_EQ(got[t].shape.dtype, t == 1 ? DType::F32 : result);
      }
    }
  }
}

TEST_F(GpuCudnn, GivesNothingWhereNoKeyCounts) {
  const Case c{2, 20, 24, 2, 32, DType::BF16, 0};
  Graph graph;
  const auto outputs = build(graph, c, c.dtype, DType::F32);
  const auto got = HostProgram(graph, outputs, {}, as_cudnn({.chip = kH100}))(arguments(c));
  EXPECT_TRUE(std::isfinite(largest(got[0])));
  for (const float lse : got[1].as<float>()) {
    EXPECT_EQ(lse, -1e38F);
  }
  for (size_t t = 2; t < 5; ++t) {
    EXPECT_EQ(largest(got[t]), 0) << t;
  }
}

struct Split {
  const char* name;
  nn::AttentionKind kind;
  int64_t shards = -1;
};

/// y, dq, dk, dv of attention over all devices.
std::vector<Tensor> attend(Graph& graph, DType dtype, const nn::AttentionOptions& options) {
  const Shape shape{DType::BF16, {1, 45, 4, 16}};
  std::vector<Tensor> in;
  std::vector<Tensor> given;
  for (int i = 0; i < 4; ++i) {
    given.push_back(
        graph.input(shape, "", options.axes.mesh.axes.empty() ? Sharding() : replicated(shape)));
    in.push_back(dtype == shape.dtype ? given.back() : convert(given.back(), dtype));
  }
  const Tensor y = nn::attention(in[0], in[1], in[2], options);
  const Tensor loss = sum(convert(y, DType::F32) * convert(in[3], DType::F32));
  std::vector<Tensor> out{y};
  for (const Tensor gradient : gradients(loss, std::span(given).first(3))) {
    out.push_back(gradient);
  }
  for (Tensor& each : out) {
    each = convert(each, DType::F32);
    each = options.axes.mesh.axes.empty() ? each : with_sharding(each, {});
  }
  return out;
}

// A ring step's gradients are right only with the log-sum-exp and the result of all steps; 45
// tokens on 4 devices leave the last one with padding.
TEST_F(GpuCudnn, GivesTheReferenceOnSeveralDevices) {
  std::vector<HostArray> given;
  for (uint64_t i = 0; i < 4; ++i) {
    given.push_back(convert(kinema::normal({1, 45, 4, 16}, i), DType::BF16));
  }
  Graph plain;
  const auto want = evaluate(plain, attend(plain, DType::F32, {}), given);
  const MeshAxes mesh{{{"data", 1}, {"context", 4}}};
  for (const Split& split :
       {Split{"flash", nn::AttentionKind::FLASH}, Split{"ring", nn::AttentionKind::RING},
        Split{"ulysses", nn::AttentionKind::ULYSSES},
        Split{"ulysses_ring", nn::AttentionKind::ULYSSES_RING, 2}}) {
    SCOPED_TRACE(split.name);
    Graph graph;
    const auto outputs = attend(graph, DType::BF16,
                                {.kind = split.kind,
                                 .axes = {.mesh = mesh, .batch = {"data"}, .sequence = {"context"}},
                                 .ulysses_shards = split.shards});
    EmitOptions options = as_cudnn({.chip = kH100, .mesh = true});
    const auto got = HostProgram(graph, outputs, mesh, options)(given);
    for (size_t t = 0; t < got.size(); ++t) {
      EXPECT_LE(largest_difference(got[t], want[t]), 0x1p-6 * std::max(largest(want[t]), 1.0)) << t;
    }
  }
}

TEST(CudnnReference, RefusesInvalidCalls) {
  Graph graph;
  const auto outputs = build(graph, {1, 16, 16, 1, 8}, DType::BF16, DType::BF16);
  const auto damaged = [&](const std::function<void(CustomCallAttrs&)>& damage) {
    EmitOptions options;
    const Lowering checked = interpreter::with_cudnn({});
    options.lowering = [&, inner = gpu_lowering({.chip = kH100})](const Node& node, Emitter& out) {
      if (node.op == &kCustomCall) {
        auto attrs = node.get<CustomCallAttrs>();
        damage(attrs);
        const_cast<Node&>(node).attrs = attrs;
      }
      return checked(node, out) || inner(node, out);
    };
    emit(graph, outputs, options);
  };
  const auto replace = [](std::string from, std::string to) {
    return [=](CustomCallAttrs& attrs) {
      const size_t at = attrs.config.find(from);
      ASSERT_NE(at, std::string::npos) << from;
      attrs.config.replace(at, from.size(), to);
    };
  };
  EXPECT_NO_THROW(damaged([](CustomCallAttrs&) {}));
  EXPECT_THROW(damaged([](CustomCallAttrs& a) { a.result_layouts[0] = {3, 2, 1, 0}; }), Error);
  EXPECT_THROW(damaged([](CustomCallAttrs& a) { a.api_version = 4; }), Error);
  EXPECT_THROW(damaged([](CustomCallAttrs& a) { a.target = "__cudnn$fmha"; }), Error);
  EXPECT_THROW(damaged(replace("NO_MASK", "PADDING")), Error);
  EXPECT_THROW(damaged(replace("\\2216\\22", "\\2217\\22")), Error);
  EXPECT_THROW(damaged(replace("\\22BF16\\22", "\\22F16\\22")), Error);
  EXPECT_THROW(damaged(replace("_contracting_dimensions\\22: [\\223",
                               "_contracting_dimensions\\22: [\\222")),
               Error);
}

// ---- Texts ----------------------------------------------------------------------------------

TEST(GpuLowering, WritesTheCallsThatTheCompilerKnows) {
  const std::string both = text({1, 1024, 1024, 4, 128}, {.chip = kH100});
  EXPECT_THAT(
      both,
      HasSubstr("call_target_name = \"__cudnn$fmhaSoftmax\", api_version = 2 : i32, "
                "backend_config = \"{\\22operation_queue_id\\22: \\220\\22, "
                "\\22cudnn_fmha_backend_config\\22: {\\22fmha_scale\\22: 0.08838834764831843, "
                "\\22intermediate_tensor_shape\\22: {\\22element_type\\22: \\22BF16\\22, "
                "\\22dimensions\\22: [\\221\\22, \\224\\22, \\221024\\22, \\221024\\22], "
                "\\22layout\\22: {\\22minor_to_major\\22: [\\223\\22, \\222\\22, \\221\\22, "
                "\\220\\22]}}, \\22is_flash_attention\\22: true, \\22mask_type\\22: "
                "\\22NO_MASK\\22, \\22bmm1_dot_dimension_numbers\\22: "
                "{\\22lhs_contracting_dimensions\\22: [\\223\\22], "
                "\\22rhs_contracting_dimensions\\22: [\\223\\22], \\22lhs_batch_dimensions\\22: "
                "[\\220\\22, \\222\\22], \\22rhs_batch_dimensions\\22: [\\220\\22, \\222\\22]}, "
                "\\22bmm2_dot_dimension_numbers\\22: {\\22lhs_contracting_dimensions\\22: "
                "[\\223\\22], \\22rhs_contracting_dimensions\\22: [\\221\\22], "
                "\\22lhs_batch_dimensions\\22: [\\220\\22, \\221\\22], "
                "\\22rhs_batch_dimensions\\22: [\\220\\22, \\222\\22]}}}\""));
  EXPECT_THAT(both, HasSubstr("result_layouts = [dense<[3, 1, 2, 0]> : tensor<4xindex>, dense<[2, "
                              "1, 0]> : tensor<3xindex>, dense<[0]> : tensor<1xindex>]"));
  EXPECT_THAT(both, HasSubstr("(tensor<1x1024x4x128xbf16>, tensor<1x1024x4x128xbf16>, "
                              "tensor<1x1024x4x128xbf16>) -> (tensor<1x4x1024x128xbf16>, "
                              "tensor<1x4x1024xf32>, tensor<256xui8>)"));
  EXPECT_THAT(both, HasSubstr("__cudnn$fmhaSoftmaxBackward"));
  EXPECT_THAT(both, HasSubstr("(tensor<1x1024x4x128xbf16>, tensor<1x1024x4x128xbf16>, "
                              "tensor<1x1024x4x128xbf16>, tensor<1x4x1024xf32>, "
                              "tensor<1x1024x4x128xbf16>, tensor<1x1024x4x128xbf16>) -> "
                              "(tensor<1x4x1024x128xbf16>, tensor<1x4x1024x128xbf16>, "
                              "tensor<1x4x1024x128xbf16>, tensor<2113792xui8>)"));
}

TEST(GpuLowering, SkipsAnUnusedLogSumExp) {
  Graph graph;
  const Tensor q = graph.input({DType::BF16, {1, 64, 2, 64}});
  EmitOptions options;
  options.lowering = gpu_lowering({.chip = kH100});
  const std::string forward =
      emit(graph, std::vector{nn::attention(q, q, q, {.kind = nn::AttentionKind::FLASH})}, options);
  EXPECT_THAT(forward, HasSubstr("-> (tensor<1x2x64x64xbf16>, tensor<256xui8>)"));
}

// The workspace that cuDNN 9.23 requests for 75,600 tokens and 40 (or 5) heads of 128.
TEST(GpuLowering, GivesTheWorkspaceThatEachChipTakes) {
  const Case wan{1, 75600, 75600, 40, 128};
  const Case cross{1, 75600, 512, 40, 128};
  const Case part{1, 75600, 75600, 5, 128};
  const Case odd{2, 1001, 777, 3, 64};
  struct Row {
    const char* chip;
    Case c;
    const char* forward;
    const char* backward;
  };
  for (const Row& row : {Row{kH100, wan, "<256xui8>", "<1560384256xui8>"},
                         Row{"NVIDIA H200", wan, "<256xui8>", "<1560384256xui8>"},
                         Row{"NVIDIA H100 SXM", cross, "<256xui8>", "<1560384256xui8>"},
                         Row{kH100, part, "<256xui8>", "<195048256xui8>"},
                         Row{"NVIDIA B200", wan, "<0xui8>", "<1560384000xui8>"},
                         Row{"NVIDIA A100-SXM4-80GB", wan, "<0xui8>", "<3108672128xui8>"},
                         // 6 heads x (4 x 64 x (1008 + 1001) + 4 x 1001) + 128
                         Row{"NVIDIA A100 SXM 40 GB", odd, "<0xui8>", "<3109976xui8>"}}) {
    SCOPED_TRACE(std::string(row.chip) + " " + name_of(row.c));
    const std::string both = text(row.c, {.chip = row.chip});
    EXPECT_THAT(both, HasSubstr(row.forward));
    EXPECT_THAT(both, HasSubstr(row.backward));
  }
}

TEST(GpuLowering, PassesTheNumberOfValidKeys) {
  const std::string padded = text({2, 64, 48, 1, 64, DType::F16, 40}, {.chip = kH100});
  EXPECT_THAT(padded, HasSubstr("\\22PADDING\\22"));
  EXPECT_THAT(padded, Not(HasSubstr("NO_MASK")));
  EXPECT_THAT(padded, HasSubstr("tensor<2x48x1x64xf16>, tensor<2xi32>, tensor<2xi32>) ->"));
  EXPECT_THAT(padded, HasSubstr("\\22F16\\22"));
}

TEST(GpuLowering, LeavesUnsupportedShapesToOthersAndExplainsIfRequested) {
  struct Row {
    Case c;
    const char* chip;
    const char* why;
  };
  for (const Row& row :
       {Row{{1, 32, 32, 1, 64, DType::F32}, kH100, "f32 was given, expected bf16 or f16"},
        Row{{1, 32, 32, 1, 100}, kH100, "the head width is 100, expected a multiple of 8"},
        Row{{1, 32, 32, 1, 100}, kH100, ": 104 is nearest"},
        Row{{1, 32, 32, 1, 264}, kH100, "at most 256: 256 is nearest"},
        Row{{1, 32, 32, 1, 136}, "NVIDIA A100-SXM4-40GB", "at most 128: 128 is nearest"},
        Row{{1, 32, 32, 1, 4}, kH100, ": 8 is nearest"}}) {
    SCOPED_TRACE(name_of(row.c));
    EXPECT_THAT(text(row.c, {.chip = row.chip}), Not(HasSubstr("__cudnn$")));
    EXPECT_THAT(text(row.c, {.chip = row.chip, .attention = {Kernel::CUDNN, false}}),
                Not(HasSubstr("__cudnn$")));
    EXPECT_THAT([&] { text(row.c, {.chip = row.chip, .attention = {Kernel::CUDNN}}); },
                ThrowsMessage<Error>(
                    ::testing::AllOf(HasSubstr("[kernels] attention_gpu_kernel=cudnn on NVIDIA"),
                                     HasSubstr(row.why), Not(HasSubstr("\n")))));
  }
  EXPECT_THAT(text({1, 32, 32, 1, 136}, {.chip = "NVIDIA B200"}), HasSubstr("__cudnn$"));
}

TEST(GpuLowering, TakesTheKernelThatWasAskedFor) {
  const Case c{1, 64, 64, 1, 64};
  EXPECT_THAT(text(c, {.chip = kH100, .attention = {Kernel::CUDNN}}), HasSubstr("__cudnn$"));
  EXPECT_THAT(text(c, {.chip = kH100, .attention = {Kernel::BLOCKWISE}}),
              Not(HasSubstr("custom_call")));
}

TEST(GpuLowering, IsUsedInManualRegionsOnly) {
  EXPECT_THAT(text({1, 64, 64, 1, 64}, {.chip = kH100, .mesh = true}), Not(HasSubstr("__cudnn$")));

  const MeshAxes mesh{{{"context", 2}}};
  Graph graph;
  const Shape shape{DType::BF16, {1, 64, 2, 64}};
  const Tensor q = graph.input(shape, "", replicated(shape));
  const Tensor y = nn::attention(
      q, q, q,
      {.kind = nn::AttentionKind::ULYSSES, .axes = {.mesh = mesh, .sequence = {"context"}}});
  EmitOptions options;
  options.mesh = mesh;
  options.output_shardings = {replicated(shape)};
  options.lowering = gpu_lowering({.chip = kH100, .mesh = true});
  const std::string program = emit(graph, std::vector{y}, options);
  const size_t region = program.find("sdy.manual_computation");
  ASSERT_NE(region, std::string::npos);
  EXPECT_NE(program.find("__cudnn$fmhaSoftmax", region), std::string::npos);
  // One of the two heads.
  EXPECT_THAT(program, HasSubstr("-> (tensor<1x1x64x64xbf16>, tensor<1x1x64xf32>"));
}

TEST(GpuLowering, LeavesGradientsOfGradients) {
  Graph graph;
  const Tensor q = graph.input({DType::BF16, {1, 32, 1, 16}});
  const nn::FlashOptions second{.delta_of_y = false};
  const Tensor rows = graph.input({DType::F32, {1, 1, 32}});
  const nn::FlashGradients grads =
      nn::flash_backward(q, q, q, rows, rows, q, q, {}, DType::BF16, second);
  EmitOptions options;
  options.lowering = gpu_lowering({.chip = kH100});
  EXPECT_THAT(emit(graph, std::vector{grads.dq}, options), Not(HasSubstr("__cudnn$")));
}

}  // namespace
}  // namespace kinema::kernels
