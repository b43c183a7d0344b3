#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"

namespace kinema {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor f32(Graph& graph, Dims dims) { return graph.input({DType::F32, std::move(dims)}); }

template <typename... Parts>
void expect_refusal(const std::function<void()>& build, Parts... parts) {
  EXPECT_THAT(build, ThrowsMessage<Error>(AllOf(HasSubstr(parts)...)));
}

TEST(Broadcasting, AlignsAtTheLastAxis) {
  Graph graph;
  const Tensor a = f32(graph, {2, 1, 3});
  const Tensor b = f32(graph, {4, 1});

  EXPECT_EQ((a + b).shape(), (Shape{DType::F32, {2, 4, 3}}));
  EXPECT_EQ((a * 2.0).shape(), a.shape());
  EXPECT_EQ(compare(a, Comparison::LT, b).shape(), (Shape{DType::PRED, {2, 4, 3}}));
}

TEST(Broadcasting, NamesBothShapes) {
  Graph graph;
  const Tensor a = f32(graph, {2, 5});
  const Tensor b = f32(graph, {4, 1, 3});

  expect_refusal([&] { a* b; }, "[multiply]", "f32[2,5]", "f32[4,1,3]", "5 and 3");
}

TEST(Elementwise, RefusesTwoDtypes) {
  Graph graph;
  const Tensor a = f32(graph, {2});
  const Tensor b = graph.input({DType::BF16, {2}});

  expect_refusal([&] { a + b; }, "[add]", "f32[2]", "bf16[2]", "convert");
}

TEST(Elementwise, RefusesDtypesWithoutAMeaning) {
  Graph graph;
  const Tensor ids = graph.input({DType::S32, {2}});
  const Tensor x = f32(graph, {2});

  expect_refusal([&] { exp(ids); }, "[exp]", "s32[2]", "floating-point");
  expect_refusal([&] { x& x; }, "[and]", "f32[2]", "integers");
  expect_refusal([&] { ids * 0.5; }, "[constant]", "0.5", "s32");
  expect_refusal([&] { -graph.input({DType::U32, {}}); }, "[negate]", "u32[]", "signed");
}

TEST(Elementwise, RefusesAnEmptyTensor) {
  Graph graph;
  const Tensor x = f32(graph, {2});

  expect_refusal([&] { x + Tensor(); }, "empty tensor");
  expect_refusal([&] { exp(Tensor()); }, "empty");
}

TEST(Constant, RefusesValuesOutsideItsDtype) {
  Graph graph;

  expect_refusal([&] { constant(graph, 256, {DType::U8, {}}); }, "256", "u8");
  expect_refusal([&] { constant(graph, -1, {DType::U64, {}}); }, "-1", "u64");
  expect_refusal([&] { constant(graph, INFINITY, {DType::S32, {}}); }, "inf", "s32");
  EXPECT_NO_THROW(constant(graph, -128, {DType::S8, {}}));
}

TEST(Select, WantsPred) {
  Graph graph;
  const Tensor x = f32(graph, {2});

  expect_refusal([&] { select(x, x, x); }, "[select]", "f32[2]", "pred");
}

TEST(Bitcast, KeepsTheWidth) {
  Graph graph;
  const Tensor x = f32(graph, {2});

  EXPECT_EQ(bitcast(x, DType::U32).dtype(), DType::U32);
  expect_refusal([&] { bitcast(x, DType::U16); }, "f32[2]", "u16");
}

TEST(Constant, ChecksItsBytes) {
  Graph graph;
  const std::vector<std::byte> bytes(7);

  expect_refusal([&] { constant(graph, {DType::F32, {2}}, bytes); }, "7 bytes", "f32[2] has 8");
}

TEST(Reshape, FindsTheUnknownSize) {
  Graph graph;
  const Tensor x = f32(graph, {2, 3, 4});

  EXPECT_EQ(reshape(x, {-1, 6}).shape().dims, (Dims{4, 6}));
  expect_refusal([&] { reshape(x, {5, -1}); }, "f32[2,3,4]", "rows of 5");
  expect_refusal([&] { reshape(x, {5, 5}); }, "f32[2,3,4] has 24", "[5,5] has 25");
}

TEST(Transpose, WantsEveryAxisOnce) {
  Graph graph;
  const Tensor x = f32(graph, {2, 3, 4});

  EXPECT_EQ(transpose(x, {2, 0, 1}).shape().dims, (Dims{4, 2, 3}));
  EXPECT_EQ(transpose(x, {0, 1, 2}), x);
  expect_refusal([&] { transpose(x, {0, 0, 2}); }, "[0,0,2]", "f32[2,3,4]");
  expect_refusal([&] { transpose(x, {0, 1}); }, "[0,1]", "f32[2,3,4]");
}

TEST(BroadcastTo, RefusesOtherSizes) {
  Graph graph;
  const Tensor x = f32(graph, {2, 3});

  EXPECT_EQ(broadcast_to(x, {5, 2, 3}).shape().dims, (Dims{5, 2, 3}));
  expect_refusal([&] { broadcast_to(x, {5, 3, 3}); }, "f32[2,3]", "f32[5,3,3]");
  expect_refusal([&] { broadcast_to(x, {3}); }, "f32[2,3]", "[3]");
  expect_refusal([&] { broadcast_in_dim(x, {3, 2}, {1, 0}); }, "rising", "[1,0]");
}

TEST(Squeeze, WantsSizeOne) {
  Graph graph;
  const Tensor x = f32(graph, {2, 1, 3});

  EXPECT_EQ(squeeze(x, Axis(-2)).shape().dims, (Dims{2, 3}));
  EXPECT_EQ(expand_dims(x, Axis(-1)).shape().dims, (Dims{2, 1, 3, 1}));
  expect_refusal([&] { squeeze(x, Axis(2)); }, "axis 2 of f32[2,1,3]");
}

TEST(Slice, StaysInside) {
  Graph graph;
  const Tensor x = f32(graph, {2, 7});

  EXPECT_EQ(slice(x, Axis(1), 0, 3, 3).shape().dims, (Dims{2, 3}));
  expect_refusal([&] { slice(x, Axis(1), 2, 3, 3); }, "[slice]", "3 elements from 2", "f32[2,7]");
  expect_refusal([&] { slice(x, Axis(2), 0, 1); }, "[slice]", "axis 2", "f32[2,7]");
  expect_refusal([&] { split(x, Axis(1), 2); }, "[split]", "f32[2,7]", "2 parts");
}

TEST(Pad, CountsEdgesAndInterior) {
  Graph graph;
  const Tensor x = f32(graph, {2, 3});

  EXPECT_EQ(pad(x, Axis(1), 1, 2, 0.0, 1).shape().dims, (Dims{2, 8}));
  expect_refusal([&] { pad(x, Axis(1), -1, 0); }, "[pad]", "f32[2,3]", "negative");
}

TEST(Concatenate, JoinsAlongOneAxis) {
  Graph graph;

  EXPECT_EQ(concatenate({f32(graph, {2, 3}), f32(graph, {2, 5})}, Axis(1)).shape().dims,
            (Dims{2, 8}));
}

TEST(Concatenate, NamesTheOperandThatDoesNotFit) {
  Graph graph;
  const Tensor a = f32(graph, {2, 3});

  expect_refusal(
      [&] {
        concatenate({a, f32(graph, {4, 5})}, Axis(1));
      },
      "operand 1 is f32[4,5]", "axis 1 only");
  expect_refusal([&] { concatenate({a, f32(graph, {2})}, Axis(1)); }, "operand 1 is f32[2]");
  expect_refusal([&] { concatenate({}, Axis(0)); }, "[concatenate]");
}

TEST(DynamicSlice, NeedsAnIntegerScalar) {
  Graph graph;
  const Tensor x = f32(graph, {2, 7});
  const Tensor start = graph.input({DType::S32, {}});

  EXPECT_EQ(dynamic_slice(x, Axis(1), start, 3).shape().dims, (Dims{2, 3}));
  expect_refusal([&] { dynamic_slice(x, Axis(1), f32(graph, {}), 3); }, "f32[]", "integer scalar");
  expect_refusal([&] { dynamic_slice(x, Axis(1), start, 8); }, "8 elements", "f32[2,7]");
  expect_refusal(
      [&] {
        dynamic_update_slice(x, Axis(1), start, f32(graph, {3, 2}));
      },
      "f32[3,2]", "f32[2,7]", "axis 1");
}

TEST(Take, GivesRowsInTheShapeOfTheIds) {
  Graph graph;
  const Tensor table = f32(graph, {10, 4});

  EXPECT_EQ(take(table, graph.input({DType::S32, {2, 3}})).shape().dims, (Dims{2, 3, 4}));
  expect_refusal([&] { take(table, f32(graph, {2})); }, "[take]", "f32[2]", "integer ids");
}

TEST(Reductions, DropOrKeepTheirAxes) {
  Graph graph;
  const Tensor x = f32(graph, {2, 3, 4});

  EXPECT_EQ(sum(x, {0, -1}).shape().dims, (Dims{3}));
  EXPECT_EQ(max(x, {1}, true).shape().dims, (Dims{2, 1, 4}));
  EXPECT_EQ(mean(x).shape().dims, Dims{});
  EXPECT_EQ(argmax(x, Axis(1)).shape(), (Shape{DType::S32, {2, 4}}));
  EXPECT_EQ(sum(graph.input({DType::BF16, {2}})).dtype(), DType::BF16);
}

TEST(Reductions, RefuseWrongAxesAndDtypes) {
  Graph graph;
  const Tensor x = f32(graph, {2, 3});

  expect_refusal([&] { sum(x, {0, -2}); }, "[sum]", "twice");
  expect_refusal([&] { sum(x, {2}); }, "[sum]", "axis 2", "f32[2,3]");
  expect_refusal([&] { all(x); }, "[all]", "f32[2,3]", "pred");
  expect_refusal([&] { mean(graph.input({DType::S32, {2}})); }, "[mean]", "s32[2]");
}

TEST(DotGeneral, OrdersBatchThenLeftThenRight) {
  Graph graph;
  const Tensor a = f32(graph, {5, 2, 3});
  const Tensor b = f32(graph, {3, 7, 5});

  EXPECT_EQ(dot_general(a, b, {{2}, {0}, {0}, {2}}).shape().dims, (Dims{5, 2, 7}));
}

TEST(DotGeneral, NamesTheAxesThatDiffer) {
  Graph graph;
  const Tensor a = f32(graph, {2, 3});
  const Tensor b = f32(graph, {4, 5});

  expect_refusal(
      [&] {
        dot_general(a, b, {{1}, {0}});
      },
      "f32[2,3]", "f32[4,5]", "contracted axes 1 and 0");
  expect_refusal([&] { dot_general(a, b, {{2}, {0}}); }, "axis 2 of the left", "f32[2,3]");
  expect_refusal([&] { dot_general(a, b, {{1}, {}}); }, "1 contracted", "against 0");
  expect_refusal([&] { matmul(a, f32(graph, {1, 3, 2})); }, "[matmul]", "f32[2,3]", "f32[1,3,2]");
}

TEST(DotGeneral, WidensBf16OnRequestOnly) {
  Graph graph;
  const Tensor a = graph.input({DType::BF16, {2, 3}});
  const Tensor b = graph.input({DType::BF16, {3, 4}});

  EXPECT_EQ(dot_general(a, b, {{1}, {0}}).dtype(), DType::BF16);
  EXPECT_EQ(dot_general(a, b, {{1}, {0}}, Precision::DEFAULT, DType::F32).dtype(), DType::F32);
  expect_refusal(
      [&] {
        dot_general(a, b, {{1}, {0}}, Precision::DEFAULT, DType::F64);
      },
      "bf16[2,3]", "f64");
}

TEST(DotGeneral, SumsNarrowOperandsInWiderResults) {
  Graph graph;
  const auto dot = [&](DType a, DType b, DType out) {
    return dot_general(graph.input({a, {2, 3}}), graph.input({b, {3, 4}}), {{1}, {0}},
                       Precision::DEFAULT, out)
        .dtype();
  };
  EXPECT_EQ(dot(DType::S8, DType::S8, DType::S32), DType::S32);
  EXPECT_EQ(dot(DType::F8E4M3FN, DType::F8E4M3FN, DType::BF16), DType::BF16);
  EXPECT_EQ(dot(DType::F8E5M2, DType::F8E4M3FN, DType::F32), DType::F32);
  expect_refusal([&] { dot(DType::S8, DType::S8, DType::F32); }, "s8[2,3]", "cannot give f32");
  expect_refusal([&] { dot(DType::F8E5M2, DType::F8E5M2, DType::F8E5M2); }, "a wider float");
  expect_refusal([&] { dot(DType::F8E4M3FN, DType::BF16, DType::BF16); }, "dtypes differ");
  expect_refusal([&] { dot(DType::S16, DType::S16, DType::S32); }, "s16[2,3]");
}

TEST(Einsum, ReadsItsSpec) {
  Graph graph;
  const Tensor a = f32(graph, {2, 3, 4});
  const Tensor b = f32(graph, {4, 5});

  EXPECT_EQ(einsum("bsd,de->bse", a, b).shape().dims, (Dims{2, 3, 5}));
  EXPECT_EQ(einsum("bsd,de->ebs", a, b).shape().dims, (Dims{5, 2, 3}));
  EXPECT_EQ(einsum("bsd,de->e", a, b).shape().dims, (Dims{5}));
  expect_refusal([&] { einsum("bsd,de", a, b); }, "bsd,de", "ab,bc->ac");
  expect_refusal([&] { einsum("bsd,se->be", a, b); }, "`s` is 3", "f32[2,3,4]", "4 in f32[4,5]");
  expect_refusal([&] { einsum("bsd,de->bx", a, b); }, "`x`");
  expect_refusal([&] { einsum("bdd,de->be", a, b); }, "`bdd`", "once");
  expect_refusal([&] { einsum("bs,de->be", a, b); }, "2 letters for f32[2,3,4]");
}

TEST(Convolution, FollowsTorchsSizes) {
  Graph graph;
  const Tensor x = f32(graph, {1, 4, 9, 8});
  const Tensor w = f32(graph, {6, 2, 3, 2});

  const Tensor y = convolution(
      x, w, {.strides = {2, 1}, .pad = {{2, 0}, {0, 0}}, .rhs_dilation = {1, 3}, .groups = 2});

  EXPECT_EQ(y.shape().dims, (Dims{1, 6, 5, 5}));
}

TEST(Convolution, NamesChannelsAndKernel) {
  Graph graph;
  const Tensor x = f32(graph, {1, 4, 9});
  const Tensor w = f32(graph, {6, 3, 3});

  expect_refusal(
      [&] {
        convolution(x, w, {.strides = {1}, .pad = {{0, 0}}});
      },
      "4 channels", "f32[1,4,9]", "f32[6,3,3]");
  expect_refusal(
      [&] {
        convolution(x, w, {.strides = {1, 1}, .pad = {{0, 0}}});
      },
      "1 spatial", "2 strides");
}

TEST(WithShardingShape, CountsAxes) {
  Graph graph;
  const Tensor x = f32(graph, {2, 3});

  expect_refusal([&] { with_sharding(x, {{{"data"}}}); }, "1 axes", "f32[2,3]");
}

TEST(RandomShape, WantsAKeyOfTwoWords) {
  Graph graph;

  expect_refusal([&] { random_normal(f32(graph, {2}), {3}); }, "[random]", "f32[2]", "u32[2]");
}

TEST(Norms, WantAFloatingPointAxis) {
  Graph graph;

  expect_refusal([&] { layer_norm(f32(graph, {}), 1e-6); }, "[layer_norm]", "f32[]");
  expect_refusal([&] { softmax(graph.input({DType::S32, {2}})); }, "[softmax]", "s32[2]");
}

TEST(Errors, NameTheModelPath) {
  Graph graph;
  const Tensor x = f32(graph, {2, 3});
  const Scope blocks(graph, "blocks");
  const Scope attention(graph, "attn1");

  expect_refusal([&] { reshape(x, {7}); }, "[reshape]", "blocks/attn1");
}

}  // namespace
}  // namespace kinema
