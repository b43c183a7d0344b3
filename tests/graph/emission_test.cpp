#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/custom_call.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"

namespace kinema {
namespace {

using testing::HasSubstr;
using testing::Not;

Tensor f32(Graph& graph, Dims dims) { return graph.input({DType::F32, std::move(dims)}); }

std::string text_of(const Graph& graph, Tensor y, const EmitOptions& options = {}) {
  return emit(graph, std::vector<Tensor>{y}, options);
}

// Emits one expression of two inputs f32[2,3].
template <typename F>
std::string text_of(F&& build) {
  Graph graph;
  const Tensor a = f32(graph, {2, 3});
  const Tensor b = f32(graph, {2, 3});
  return text_of(graph, build(a, b));
}

TEST(Emission, OfElementwiseOps) {
  EXPECT_THAT(text_of([](Tensor a, Tensor b) { return a + b; }),
              HasSubstr("%0 = \"stablehlo.add\"(%arg0, %arg1) : (tensor<2x3xf32>, "
                        "tensor<2x3xf32>) -> (tensor<2x3xf32>)"));
  EXPECT_THAT(text_of([](Tensor a, Tensor b) { return compare(a, Comparison::LE, b); }),
              HasSubstr("\"stablehlo.compare\"(%arg0, %arg1) {comparison_direction = "
                        "#stablehlo<comparison_direction LE>}"));
  EXPECT_THAT(text_of([](Tensor a, Tensor) { return convert(a, DType::BF16); }),
              HasSubstr("\"stablehlo.convert\"(%arg0) : (tensor<2x3xf32>) -> (tensor<2x3xbf16>)"));
}

TEST(Emission, WritesConstantsExactly) {
  const auto splat = [](double value, DType dtype) {
    Graph graph;
    return text_of(graph, constant(graph, value, {dtype, {2}}));
  };
  EXPECT_THAT(splat(0.5, DType::F32), HasSubstr("value = dense<5.000000e-01> : tensor<2xf32>"));
  // 0.1 has no short exact decimal, so its bits are written.
  EXPECT_THAT(splat(0.1, DType::F32), HasSubstr("dense<0x3DCCCCCD>"));
  EXPECT_THAT(splat(0.1, DType::BF16), HasSubstr("dense<0x3DCD>"));
  EXPECT_THAT(splat(0.1, DType::F64), HasSubstr("dense<1.000000e-01>"));
  EXPECT_THAT(splat(1.0 / 3.0, DType::F64), HasSubstr("dense<0x3FD5555555555555>"));
  EXPECT_THAT(splat(-INFINITY, DType::F32), HasSubstr("dense<0xFF800000>"));
  EXPECT_THAT(splat(-3, DType::S32), HasSubstr("dense<-3> : tensor<2xi32>"));
  EXPECT_THAT(splat(4294967295.0, DType::U32), HasSubstr("dense<4294967295> : tensor<2xui32>"));
  EXPECT_THAT(splat(1, DType::PRED), HasSubstr("dense<true> : tensor<2xi1>"));
}

TEST(Emission, WritesElementsAsBytes) {
  Graph graph;
  const std::vector<float> values{1.0F, -2.0F};

  EXPECT_THAT(text_of(graph, constant_f32(graph, {2}, values)),
              HasSubstr("value = dense<\"0x0000803F000000C0\"> : tensor<2xf32>"));
}

TEST(Emission, WritesPredElementsOneByOne) {
  Graph graph;
  const std::vector<std::byte> bytes{std::byte{1}, std::byte{0}};

  EXPECT_THAT(text_of(graph, constant(graph, {DType::PRED, {2, 1}}, bytes)),
              HasSubstr("dense<[[true], [false]]> : tensor<2x1xi1>"));
}

TEST(Emission, OfShapeOps) {
  EXPECT_THAT(text_of([](Tensor a, Tensor) {
                return transpose(a, {1, 0});
              }),
              HasSubstr("{permutation = array<i64: 1, 0>}"));
  EXPECT_THAT(text_of([](Tensor a, Tensor) {
                return broadcast_to(a, {4, 2, 3});
              }),
              HasSubstr("{broadcast_dimensions = array<i64: 1, 2>}"));
  EXPECT_THAT(text_of([](Tensor a, Tensor) { return slice(a, Axis(1), 0, 2, 2); }),
              HasSubstr("{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 2, 3>, "
                        "strides = array<i64: 1, 2>}"));
  EXPECT_THAT(text_of([](Tensor a, Tensor) { return pad(a, Axis(0), 1, 2); }),
              HasSubstr("{edge_padding_low = array<i64: 1, 0>, edge_padding_high = "
                        "array<i64: 2, 0>, interior_padding = array<i64: 0, 0>}"));
  EXPECT_THAT(text_of([](Tensor a, Tensor b) {
                return concatenate({a, b}, Axis(1));
              }),
              HasSubstr("\"stablehlo.concatenate\"(%arg0, %arg1) {dimension = 1 : i64}"));
}

TEST(Emission, OfReductions) {
  EXPECT_THAT(text_of([](Tensor a, Tensor) { return sum(a, {1}); }),
              HasSubstr("    %1 = \"stablehlo.reduce\"(%arg0, %0) ({\n"
                        "    ^bb0(%2: tensor<f32>, %3: tensor<f32>):\n"
                        "      %4 = \"stablehlo.add\"(%2, %3) : (tensor<f32>, tensor<f32>) -> "
                        "tensor<f32>\n"
                        "      \"stablehlo.return\"(%4) : (tensor<f32>) -> ()\n"
                        "    }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> "
                        "tensor<2xf32>"));
  EXPECT_THAT(text_of([](Tensor a, Tensor) { return max(a); }), HasSubstr("dense<0xFF800000>"));
}

TEST(Emission, OfProducts) {
  EXPECT_THAT(text_of([](Tensor a, Tensor b) {
                return dot_general(a, b, {{1}, {1}}, Precision::HIGHEST);
              }),
              HasSubstr("{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], "
                        "rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], "
                        "rhs_contracting_dimensions = [1]>, precision_config = "
                        "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}"));
  Graph graph;
  const Tensor y =
      convolution(f32(graph, {1, 2, 5}), f32(graph, {3, 2, 2}), {.strides = {2}, .pad = {{1, -1}}});
  EXPECT_THAT(text_of(graph, y),
              HasSubstr("dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, "
                        "feature_group_count = 1 : i64, lhs_dilation = array<i64: 1>, padding = "
                        "dense<[[1, -1]]> : tensor<1x2xi64>"));
}

TEST(Emission, OfEinsumNeedsNoTransposeWhereAnOrderFits) {
  Graph graph;
  const Tensor w = f32(graph, {4, 5});
  const Tensor x = f32(graph, {2, 3, 4});

  EXPECT_THAT(text_of(graph, einsum("de,bsd->bse", w, x)), Not(HasSubstr("transpose")));
}

TEST(Emission, OfAnnotationsIsNothing) {
  const std::string text = text_of([](Tensor a, Tensor) {
    return with_sharding(named(stop_gradient(a), "attn_output"), {{{"data"}, {}}});
  });
  EXPECT_THAT(text, HasSubstr("return %arg0"));
  EXPECT_THAT(text, Not(HasSubstr("sdy")));
}

TEST(Emission, OfShardingsNeedsAMesh) {
  Graph graph;
  const Tensor y = with_sharding(f32(graph, {2, 3}), {{{"data", "fsdp"}, {}}});
  const std::string text = text_of(graph, y, {.mesh = {{{"data", 2}, {"fsdp", 2}}}});

  EXPECT_THAT(text, HasSubstr("\"sdy.sharding_constraint\"(%arg0) {sharding = #sdy.sharding<@mesh, "
                              "[{\"data\", \"fsdp\"}, {}]>}"));
}

TEST(Emission, OfBarriersBindsEveryResult) {
  EXPECT_THAT(text_of([](Tensor a, Tensor b) {
                return optimization_barrier({a, b})[1];
              }),
              testing::AllOf(HasSubstr("%0:2 = \"stablehlo.optimization_barrier\"(%arg0, %arg1)"),
                             HasSubstr("return %0#1")));
}

TEST(Emission, OfSumsOfBf16AccumulatesInF32) {
  Graph graph;
  const std::string text = text_of(graph, sum(graph.input({DType::BF16, {8}})));

  EXPECT_THAT(text, HasSubstr("(tensor<8xf32>, tensor<f32>) -> tensor<f32>"));
  EXPECT_THAT(text, HasSubstr("-> (tensor<bf16>)"));
}

TEST(Emission, OfCustomCallsGivesLayoutsAndQuotesTheirConfiguration) {
  Graph graph;
  const std::vector<Tensor> ys =
      custom_call({f32(graph, {2, 3})}, {{DType::BF16, {2, 3}}, {DType::U8, {0}}},
                  {.target = "__a$kernel",
                   .api_version = 2,
                   .config = mlir_quoted("{\"key\": \"a\nb\"}"),
                   .operand_layouts = {{0, 1}},
                   .result_layouts = {{1, 0}, {0}},
                   .more = "kernel_name = \"k\""});

  EXPECT_THAT(
      text_of(graph, ys[0]),
      HasSubstr("%0:2 = \"stablehlo.custom_call\"(%arg0) {call_target_name = \"__a$kernel\", "
                "api_version = 2 : i32, backend_config = \"{\\22key\\22: \\22a\\0Ab\\22}\", "
                "kernel_name = \"k\", operand_layouts = [dense<[0, 1]> : tensor<2xindex>], "
                "result_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[0]> : "
                "tensor<1xindex>]} : (tensor<2x3xf32>) -> (tensor<2x3xbf16>, tensor<0xui8>)"));
}

TEST(Emission, OfCustomCallsIsRowMajorUnlessTold) {
  Graph graph;
  const Tensor y = custom_call({f32(graph, {2, 3})}, {{DType::F32, {}}},
                               {.target = "k", .config = "{a = 1 : i32}"})[0];

  EXPECT_THAT(text_of(graph, y),
              HasSubstr("backend_config = {a = 1 : i32}, operand_layouts = [dense<[1, 0]> : "
                        "tensor<2xindex>], result_layouts = [dense<[]> : tensor<0xindex>]"));
}

TEST(CustomCall, HasNoGradient) {
  Graph graph;
  const Tensor x = f32(graph, {2});
  const Tensor y = custom_call({x}, {{DType::F32, {2}}}, {.target = "k", .config = "\"\""})[0];

  EXPECT_THROW(gradients(sum(y), std::vector<Tensor>{x}), Error);
}

}  // namespace
}  // namespace kinema
