#include "kinema/nn/orthogonal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/gradient_check.h"
#include "kinema/core/error.h"

namespace kinema::nn {
namespace {

HostArray columns_of(const HostArray& a) {
  Graph graph;
  const Tensor x = graph.input(a.shape);
  return evaluate(graph, std::vector{orthogonal_columns(x)}, std::vector{a}).front();
}

HostArray f64(Dims dims, const std::vector<double>& values) {
  HostArray out(Shape{DType::F64, std::move(dims)});
  std::ranges::copy(values, out.as<double>().begin());
  return out;
}

void expect_near(const HostArray& got, const std::vector<double>& expected) {
  const auto values = got.as<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    // Householder reflections are backward stable: some 1e-15 for such small matrices.
    EXPECT_NEAR(values[i], expected[i], 1e-13) << "element " << i;
  }
}

TEST(OrthogonalColumns, HaveTheSignsOfLapack) {
  // R's diagonal is minus the sign of the pivot times the length: q = a / -5.
  expect_near(columns_of(f64({2, 1}, {3, 4})), {-0.6, -0.8});
  expect_near(columns_of(f64({2, 1}, {-3, 4})), {-0.6, 0.8});
  expect_near(columns_of(f64({2, 1}, {0, 4})), {0, -1});
  // The last column of a square matrix is not reflected: R is [-sqrt(10), -14 / sqrt(10); 0, -2 /
  // sqrt(10)].
  const double s = 1 / std::sqrt(10.0);
  expect_near(columns_of(f64({2, 2}, {1, 2, 3, 4})), {-s, -3 * s, -3 * s, s});
}

TEST(OrthogonalColumns, AreThoseOfATriangularProduct) {
  const HostArray a = random_f64({7, 3}, -1, 1, 5);
  const HostArray q = columns_of(a);
  const auto dot = [&](const HostArray& x, int64_t i, const HostArray& y, int64_t j) {
    double out = 0;
    for (int64_t row = 0; row < 7; ++row) {
      out += x.as<double>()[static_cast<size_t>(3 * row + i)] *
             y.as<double>()[static_cast<size_t>(3 * row + j)];
    }
    return out;
  };
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      EXPECT_NEAR(dot(q, i, q, j), i == j ? 1.0 : 0.0, 1e-13);
      if (i > j) {
        EXPECT_NEAR(dot(q, i, a, j), 0.0, 1e-13);  // below R's diagonal
      }
    }
  }
}

TEST(OrthogonalColumns, OfZerosAreFinite) {
  expect_near(columns_of(f64({3, 2}, {0, 0, 0, 0, 0, 0})), {1, 0, 0, 1, 0, 0});
}

TEST(OrthogonalColumns, GradientsMatchFiniteDifferences) {
  const auto q = [](std::span<const Tensor> x) { return orthogonal_columns(x[0]); };
  expect_gradients_match({{"tall", q, {random_f64({5, 3})}},
                          {"square", q, {random_f64({3, 3}, -1, 1, 2)}},
                          {"one column", q, {random_f64({4, 1}, -1, 1, 3)}}});
}

TEST(OrthogonalColumns, NeedAsManyRows) {
  Graph graph;
  const Tensor wide = graph.input({DType::F32, {2, 3}});
  EXPECT_THAT([&] { orthogonal_columns(wide); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("f32[2,3]")));
}

}  // namespace
}  // namespace kinema::nn
