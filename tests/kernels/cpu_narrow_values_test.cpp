#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/cpu_kernel.h"
#include "kinema/graph/ops.h"

// BF16 values are not widened between the operations of a program.
namespace kinema::kernels {
namespace {

bool has_wall(const Graph& graph, const std::vector<Tensor>& outputs) {
  return emit(graph, outputs, with_kernels({})).find(kBarrierTarget) != std::string::npos;
}

TEST(CpuNarrowValues, SumsThatAreReadTwiceAreRoundedForAll) {
  const auto barrier_outputs = [](DType dtype, int64_t size, bool twice) {
    Graph graph;
    const Tensor x = graph.input({dtype, {size}});
    const Tensor y = graph.input({dtype, {size}});
    const Tensor sum = x + y;
    return has_wall(graph, twice ? std::vector{sum, exp(sum)} : std::vector{exp(sum)});
  };
  EXPECT_TRUE(barrier_outputs(DType::BF16, 1 << 16, true));
  EXPECT_FALSE(barrier_outputs(DType::BF16, 1 << 16, false));
  EXPECT_FALSE(barrier_outputs(DType::BF16, 1 << 10, true));
  EXPECT_FALSE(barrier_outputs(DType::F32, 1 << 16, true));
}

TEST(CpuNarrowValues, SoAreWiderSumsButNoParameters) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {1 << 16}});
  const Tensor parameter = convert(x, DType::BF16);
  EXPECT_FALSE(has_wall(graph, {parameter, exp(parameter)}));
  const Tensor sum = convert(x + x, DType::BF16);
  EXPECT_TRUE(has_wall(graph, {sum, exp(sum)}));
}

TEST(CpuNarrowValues, ReadersSeeWhatWasRounded) {
  Graph graph;
  const Dims dims{1 << 16};
  const Tensor x = graph.input({DType::BF16, dims});
  const Tensor y = graph.input({DType::BF16, dims});
  const Tensor sum = x + y;
  const std::vector<Tensor> outputs{sum, convert(sum, DType::F32)};
  const auto results =
      runtime::Program::compile(client(), graph, outputs, {.emit = with_kernels({})})
          .run_on_host(std::vector{normal(DType::BF16, dims, 1), normal(DType::BF16, dims, 2)});
  const HostArray widened = convert(results[0], DType::F32);
  EXPECT_GT(largest(widened), 1.0);
  EXPECT_TRUE(std::ranges::equal(widened.bytes, results[1].bytes));
}

TEST(CpuNarrowValues, RowsAreSummedWhereTheyLie) {
  for (const Dims& dims : {Dims{700, 300}, Dims{3, 250, 257}}) {
    Graph graph;
    const Tensor x = graph.input({DType::BF16, dims});
    const std::vector<int64_t> axes =
        dims.size() == 2 ? std::vector<int64_t>{0} : std::vector<int64_t>{0, 1};
    const std::vector<Tensor> outputs{sum(convert(x, DType::F32), axes)};
    ASSERT_NE(emit(graph, outputs, with_kernels({})).find(kColumnSumsTarget), std::string::npos);
    const HostArray given = normal(DType::BF16, dims, 1);
    const HostArray actual =
        runtime::Program::compile(client(), graph, outputs, {.emit = with_kernels({})})
            .run_on_host(std::vector{given})[0];
    const HostArray wide = convert(given, DType::F32);
    const int64_t columns = dims.back();
    const int64_t rows = wide.shape.elements() / columns;
    for (int64_t column = 0; column < columns; ++column) {
      double expected = 0;
      double magnitudes = 0;
      for (int64_t row = 0; row < rows; ++row) {
        const double value = wide.as<float>()[static_cast<size_t>(row * columns + column)];
        expected += value;
        magnitudes += std::abs(value);
      }
      // 64 roundings in a group, and one per group.
      const double bound = magnitudes * static_cast<double>(64 + rows / 64 + 1) * 0x1p-24;
      ASSERT_LE(std::abs(actual.as<float>()[static_cast<size_t>(column)] - expected), bound);
    }
  }
}

TEST(CpuNarrowValues, AreConcatenatedAsBits) {
  Graph graph;
  const Tensor x = graph.input({DType::BF16, {2, 3}});
  const Tensor y = graph.input({DType::BF16, {2, 1}});
  const std::vector<Tensor> outputs{concatenate({x, y}, Axis(1))};
  const std::string text = emit(graph, outputs, with_kernels({}));
  EXPECT_NE(text.find("(tensor<2x3xui16>, tensor<2x1xui16>) -> (tensor<2x4xui16>)"),
            std::string::npos);
  const auto bits = [](const Dims& dims, std::vector<uint16_t> of) {
    HostArray array(Shape{DType::BF16, dims});
    std::memcpy(array.bytes.data(), of.data(), of.size() * sizeof(uint16_t));
    return array;
  };
  // NaN of every kind, infinities, both zeros, the smallest numbers.
  const auto actual =
      runtime::Program::compile(client(), graph, outputs, {.emit = with_kernels({})})
          .run_on_host(std::vector{bits({2, 3}, {0x7FC1, 0xFF81, 0x7F80, 0x8000, 0x0000, 0x0001}),
                                   bits({2, 1}, {0x3F80, 0x8001})});
  const HostArray expected =
      bits({2, 4}, {0x7FC1, 0xFF81, 0x7F80, 0x3F80, 0x8000, 0x0000, 0x0001, 0x8001});
  EXPECT_TRUE(std::ranges::equal(actual[0].bytes, expected.bytes));
}

}  // namespace
}  // namespace kinema::kernels
