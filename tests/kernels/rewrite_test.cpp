#include "kinema/kernels/rewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"
#include "kinema/graph/body.h"
#include "kinema/graph/custom_call.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/scan.h"

namespace kinema::kernels {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

const Shape kShape{DType::F32, {4}};

/// A call of two results, the second of which is unused.
Tensor first_of_two(Graph& graph) {
  const Scope scope(graph, "attn1");
  const Tensor x = graph.input(kShape);
  return fused("two", {}, {x, x}, [](std::span<const Tensor> in) -> std::vector<Tensor> {
    return {in[0] + in[1], exp(in[0])};
  })[0];
}

EmitOptions replacing(const std::function<std::vector<Tensor>(std::span<const Tensor>)>& build) {
  EmitOptions options;
  options.lowering = [build](const Node& node, Emitter& out) {
    if (node.op != &kCall) {
      return false;
    }
    emit_replacement(node, out, build);
    return true;
  };
  return options;
}

TEST(WriteInstead, WritesWhatIsReadUnderTheNodesPath) {
  Graph graph;
  const Tensor y = first_of_two(graph);
  const std::string text =
      emit(graph, std::vector{y}, replacing([](std::span<const Tensor> in) -> std::vector<Tensor> {
             const Tensor doubled =
                 custom_call({in[1]}, {kShape}, {.target = "kernel", .config = "\"\""})[0];
             return {doubled * in[0], tanh(in[0])};
           }));

  EXPECT_THAT(text, HasSubstr("call_target_name = \"kernel\""));
  EXPECT_THAT(text, HasSubstr("stablehlo.multiply"));
  EXPECT_THAT(text, HasSubstr("loc(\"attn1/"));
  EXPECT_THAT(text, Not(HasSubstr("tanh")));
  EXPECT_THAT(text, Not(HasSubstr("stablehlo.add")));
}

TEST(WriteInstead, ShowsItsNodesToTheLowering) {
  Graph graph;
  const Tensor y = first_of_two(graph);
  int seen = 0;
  EmitOptions options;
  options.lowering = [&](const Node& node, Emitter& out) {
    seen += node.op == &kCustomCall ? 1 : 0;
    if (node.op != &kCall) {
      return false;
    }
    emit_replacement(node, out, [](std::span<const Tensor> in) -> std::vector<Tensor> {
      return custom_call({in[0]}, {kShape, kShape}, {.target = "kernel", .config = "\"\""});
    });
    return true;
  };
  emit(graph, std::vector{y}, options);

  EXPECT_EQ(seen, 1);
}

TEST(WriteInstead, RefusesOtherShapes) {
  Graph graph;
  const Tensor y = first_of_two(graph);
  const auto options = replacing([](std::span<const Tensor> in) -> std::vector<Tensor> {
    return {slice(in[0], Axis(0), 0, 2), in[0]};
  });

  EXPECT_THAT([&] { emit(graph, std::vector{y}, options); },
              ThrowsMessage<Error>(HasSubstr("f32[2] in place of result 0 of `call`, f32[4]")));
}

}  // namespace
}  // namespace kinema::kernels
