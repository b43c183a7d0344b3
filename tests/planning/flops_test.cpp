#include "kinema/planning/flops.h"

#include <gtest/gtest.h>

#include "kinema/graph/autodiff.h"
#include "kinema/graph/manual.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/scan.h"

namespace kinema::planning {
namespace {

double flops(Tensor y) { return matrix_flops(y.graph(), std::vector<Tensor>{y}).total(); }

TEST(MatrixFlops, AreTwoForEachMultiplicationOfAProduct) {
  Graph graph;
  const Tensor a = graph.input({DType::F32, {2, 3, 5}});
  const Tensor b = graph.input({DType::F32, {2, 5, 7}});
  EXPECT_EQ(flops(matmul(a, b)), 2.0 * 2 * 3 * 7 * 5);
}

TEST(MatrixFlops, CountAConvolutionByItsKernel) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {2, 4, 8, 8}});
  const Tensor w = graph.input({DType::F32, {6, 4, 3, 3}});
  // 2 x 6 x 6 x 6 results of 4 x 3 x 3 products each.
  EXPECT_EQ(flops(convolution(x, w, {.strides = {1, 1}, .pad = {{0, 0}, {0, 0}}})),
            2.0 * (2 * 6 * 6 * 6) * (4 * 3 * 3));
}

TEST(MatrixFlops, TellOperandsOfOneByteApart) {
  Graph graph;
  const auto product = [&](DType operands, DType out) {
    const Tensor a = graph.input({operands, {4, 4}});
    return convert(
        dot_general(a, a, {.lhs_contract = {1}, .rhs_contract = {0}}, Precision::DEFAULT, out),
        DType::F32);
  };
  const Tensor y = product(DType::S8, DType::S32) + product(DType::F8E5M2, DType::F32) +
                   product(DType::BF16, DType::F32);
  const MatrixFlops found = matrix_flops(graph, std::vector<Tensor>{y});
  constexpr double kOne = 2.0 * 4 * 4 * 4;
  EXPECT_EQ(found.int8, kOne);
  EXPECT_EQ(found.float8, kOne);
  EXPECT_EQ(found.wide, kOne);
}

TEST(MatrixFlops, LeaveOutWhatNoOutputNeeds) {
  Graph graph;
  const Tensor a = graph.input({DType::F32, {4, 4}});
  const Tensor used = matmul(a, a);
  matmul(used, used);
  EXPECT_EQ(flops(used + 1.0), 2.0 * 4 * 4 * 4);
}

TEST(MatrixFlops, CountALoopsBodyOnceAStep) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {4, 4}});
  const Tensor w = graph.input({DType::F32, {10, 4, 4}});
  const auto body = [](std::span<const Tensor> carry, std::span<const Tensor> slice) -> ScanResult {
    return {.carry = {matmul(carry[0], slice[0])}, .ys = {}};
  };
  const Tensor y = scan({x}, {w}, {.length = 10}, body).carry[0];
  constexpr double kOne = 2.0 * 4 * 4 * 4;
  EXPECT_EQ(flops(y), 10 * kOne);

  // Backward two products per step: d carry and d w; nothing is recomputed, since the carries are
  // kept.
  const std::vector<Tensor> wrt{x, w};
  const std::vector<Tensor> grads = gradients(sum(y), wrt);
  EXPECT_EQ(matrix_flops(graph, grads).total(), 10 * 3 * kOne);
}

TEST(MatrixFlops, CountAManualRegionOnEveryDevice) {
  Graph graph;
  const MeshAxes mesh{.axes = {{"data", 2}, {"tensor", 2}}};
  const Tensor x = graph.input({DType::F32, {8, 4}});
  const Tensor w = graph.input({DType::F32, {4, 4}});
  const Tensor y = manual(
      {x, w},
      {.mesh = mesh,
       .in = {{.dims = {{"data"}, {}}}, {.dims = {{}, {}}}},
       .out = {{.dims = {{"data"}, {}}}}},
      [](std::span<const Tensor> in) -> std::vector<Tensor> { return {matmul(in[0], in[1])}; })[0];
  // Both devices along tensor compute the same.
  EXPECT_EQ(flops(y), 4 * 2.0 * 4 * 4 * 4);
}

TEST(MatrixFlops, CountWhatABackwardPassComputesAgain) {
  const auto of_policy = [](RematPolicy policy) {
    Graph graph;
    const Tensor x = graph.input({DType::F32, {4, 4}});
    const Tensor w = graph.input({DType::F32, {4, 4}});
    const Tensor y =
        checkpoint({x}, policy, [&](std::span<const Tensor> in) -> std::vector<Tensor> {
          return {matmul(tanh(matmul(in[0], w)), w)};
        })[0];
    const std::vector<Tensor> wrt{x, w};
    return matrix_flops(graph, gradients(sum(y), wrt)).total();
  };
  constexpr double kOne = 2.0 * 4 * 4 * 4;
  // Gradients only need the inner product's result: forward 1, backward 4; the outer product's
  // value is unused.
  EXPECT_EQ(of_policy({}), 5 * kOne);
  EXPECT_EQ(of_policy({.kind = RematPolicy::Kind::FULL}), 5 * kOne);
}

}  // namespace
}  // namespace kinema::planning
