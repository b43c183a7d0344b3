#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "kernels/cpu_kernel.h"
#include "kinema/core/threefry.h"
#include "kinema/core/trace.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/scan.h"
#include "kinema/kernels/cpu/matrix_product.h"

namespace kinema::kernels {
namespace {

struct Comparison {
  double largest = 0;
  double difference = 0;
  bool kernel_used = false;
};

/// Compiles the function with and without the kernel; every product uses the kernel.
Comparison compare_lowerings(DType dtype, std::vector<Dims> inputs,
                             const std::function<Tensor(std::span<const Tensor>)>& function) {
  Graph graph;
  std::vector<Tensor> x;
  std::vector<HostArray> arrays;
  for (const Dims& dims : inputs) {
    x.push_back(graph.input({dtype, dims}));
    arrays.push_back(normal(dtype, dims, arrays.size()));
  }
  const std::vector<Tensor> outputs{function(x)};
  runtime::ProgramOptions plain{.kernels = false};
  const runtime::ProgramOptions fast{.emit = with_kernels({.min_flops = 0})};
  const auto expected =
      convert(runtime::Program::compile(client(), graph, outputs, plain).run_on_host(arrays)[0],
              DType::F32);
  const auto actual = convert(
      runtime::Program::compile(client(), graph, outputs, fast).run_on_host(arrays)[0], DType::F32);
  Comparison result;
  result.kernel_used = emit(graph, outputs, fast.emit).find(kDotTarget) != std::string::npos;
  result.largest = largest(expected);
  result.difference = largest_difference(expected, actual);
  return result;
}

class CpuDot : public CpuKernel {
 protected:
  void expect_equal(const std::vector<Dims>& inputs,
                    const std::function<Tensor(std::span<const Tensor>)>& function) {
    const Comparison result = compare_lowerings(GetParam(), inputs, function);
    EXPECT_TRUE(result.kernel_used);
    // Sums of k <= 300 normal products in two orders differ by about 2^-24 sqrt(k) of their size in
    // f32; a bf16 result may round to the neighbouring value, 2^-8 of the largest.
    const double unit = GetParam() == DType::BF16 ? 0x1p-8 : 0x1p-24 * 64;
    EXPECT_LE(result.difference, unit * result.largest);
    EXPECT_GT(result.largest, 1.0);
  }
};

// Sums of int8 products are integers: nothing is rounded.
TEST(CpuDotOfInt8, IsExact) {
  if (!has_fast_product(DType::S8)) {
    GTEST_SKIP() << "this processor has no exact products of int8";
  }
  const auto codes = [](const Dims& dims, uint64_t seed) {
    HostArray x(Shape{DType::S8, dims});
    RandomStream stream(random_key(seed, "codes"));
    for (int8_t& value : x.as<int8_t>()) {
      value = static_cast<int8_t>(stream.uniform() * 256.0F - 128.0F);
    }
    return x;
  };
  struct Example {
    const char* what;
    Dims a, b;
    DotDims dims;
  };
  for (const Example& each :
       {Example{"tokens by weights", {2, 65, 300}, {96, 300}, {{2}, {1}}},
        Example{"a row", {1, 1024}, {70, 1024}, {{1}, {1}}},
        Example{"scores", {2, 33, 3, 16}, {2, 41, 3, 16}, {{3}, {3}, {0, 2}, {0, 2}}},
        Example{"values", {2, 3, 33, 41}, {2, 41, 3, 16}, {{3}, {1}, {0, 1}, {0, 2}}},
        Example{"gradients", {2, 65, 40}, {2, 65, 200}, {{0, 1}, {0, 1}}}}) {
    SCOPED_TRACE(each.what);
    Graph graph;
    const Tensor a = graph.input({DType::S8, each.a});
    const Tensor b = graph.input({DType::S8, each.b});
    const std::vector<Tensor> y{dot_general(a, b, each.dims, Precision::DEFAULT, DType::S32)};
    const std::vector<HostArray> inputs{codes(each.a, 1), codes(each.b, 2)};
    const runtime::ProgramOptions fast{.emit = with_kernels({.min_flops = 0})};
    ASSERT_NE(emit(graph, y, fast.emit).find(kDotTarget), std::string::npos);
    const auto expected =
        runtime::Program::compile(client(), graph, y, {.kernels = false}).run_on_host(inputs)[0];
    const auto actual = runtime::Program::compile(client(), graph, y, fast).run_on_host(inputs)[0];
    EXPECT_EQ(actual.bytes, expected.bytes);
    EXPECT_NE(actual.bytes, std::vector<std::byte>(actual.bytes.size()));
  }
}

TEST_P(CpuDot, MultipliesTokensByWeights) {
  expect_equal({{2, 65, 48}, {96, 48}}, [](auto x) { return einsum("bsi,oi->bso", x[0], x[1]); });
}

TEST_P(CpuDot, MultipliesForWeightGradients) {
  expect_equal({{2, 65, 48}, {2, 65, 200}},
               [](auto x) { return einsum("bsi,bso->oi", x[0], x[1]); });
}

TEST_P(CpuDot, ReadsAndWritesHeadsInPlace) {
  expect_equal({{2, 33, 3, 16}, {2, 41, 3, 16}}, [](auto x) {
    const Tensor scores = einsum("bsnd,btnd->bnst", x[0], x[1]);
    return einsum("bnst,btnd->bsnd", scores, x[1]);
  });
}

TEST_P(CpuDot, ReadsThroughTransposes) {
  expect_equal({{40, 3, 64}, {64, 3, 30}}, [](auto x) {
    return matmul(transpose(x[0], {1, 0, 2}), transpose(x[1], {1, 0, 2}));
  });
}

TEST_P(CpuDot, TakesVectorsAndRows) {
  expect_equal({{1, 300}, {70, 300}}, [](auto x) { return einsum("bi,oi->bo", x[0], x[1]); });
  expect_equal({{90, 1}, {1, 70}}, [](auto x) { return matmul(x[0], x[1]); });
}

TEST_P(CpuDot, SplitsLongSides) {
  expect_equal({{8, 32}, {1000, 32}}, [](auto x) { return einsum("bi,oi->bo", x[0], x[1]); });
  expect_equal({{1000, 32}, {8, 32}}, [](auto x) { return einsum("bi,oi->ob", x[0], x[1]); });
}

// Row-major and column-major products, split into several pieces.
TEST(CpuDotOfBf16, AddsTheBiasAndRoundsOnce) {
  if (!has_fast_product(DType::BF16)) {
    GTEST_SKIP() << "this processor has no fast product of bf16";
  }
  for (const auto& [rows, in, out] :
       {std::array<int64_t, 3>{2100, 33, 70}, std::array<int64_t, 3>{30, 48, 2500},
        std::array<int64_t, 3>{1, 300, 70}, std::array<int64_t, 3>{300, 40, 2500},
        std::array<int64_t, 3>{600, 40, 2560}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", rows, in, out));
    Graph graph;
    const Tensor x = graph.input({DType::BF16, {2, rows, in}});
    const Tensor w = graph.input({DType::BF16, {out, in}});
    const Tensor bias = graph.input({DType::F32, {out}});
    const Tensor sum = dot_general(x, w, {{2}, {1}}, Precision::DEFAULT, DType::F32);
    const std::vector<Tensor> y{convert(sum + bias, DType::BF16), convert(sum * 1.0, DType::BF16)};
    const std::vector<HostArray> given{normal(DType::BF16, {2, rows, in}, 1),
                                       normal(DType::BF16, {out, in}, 2),
                                       normal(DType::F32, {out}, 3)};
    const runtime::ProgramOptions fast{.emit = with_kernels({.min_flops = 0})};
    // Another reader of the sum: the product is not fused.
    EXPECT_EQ(emit(graph, y, fast.emit).find("bias = 1"), std::string::npos);
    const std::vector<Tensor> alone{y[0]};
    ASSERT_NE(emit(graph, alone, fast.emit).find("bias = 1"), std::string::npos);
    const auto exact =
        runtime::Program::compile(client(), graph, std::vector{sum + bias}, {.kernels = false})
            .run_on_host(given)[0];
    const auto actual = convert(
        runtime::Program::compile(client(), graph, alone, fast).run_on_host(given)[0], DType::F32);
    // Half a unit of bf16, plus the difference of another summation order.
    const double order = 0x1p-24 * 64 * largest(exact);
    for (size_t i = 0; i < exact.as<float>().size(); ++i) {
      const float expected = exact.as<float>()[i];
      ASSERT_NEAR(actual.as<float>()[i], expected, std::abs(expected) * 0x1p-8 + order);
    }
  }
}

TEST_P(CpuDot, ReadsTheLayersOfALoopWhereTheyLie) {
  const auto layers = [](std::span<const Tensor> x, bool reverse) {
    const auto body = [](std::span<const Tensor> carry, std::span<const Tensor> w) {
      const Tensor up = einsum("bsi,oi->bso", carry[0], w[0]);
      const Tensor down = dot_general(w[1], up * 0.02, {{1}, {2}});
      return ScanResult{{transpose(down, {1, 2, 0})}, {}};
    };
    return scan({x[0]}, {x[1], x[2]}, {.length = 3, .reverse = reverse}, body).carry[0];
  };
  const std::vector<Dims> inputs{{2, 9, 48}, {3, 96, 48}, {3, 48, 96}};
  for (const bool reverse : {false, true}) {
    expect_equal(inputs, [&](auto x) { return layers(x, reverse); });
    // The backward pass reads the weights again.
    expect_equal(inputs, [&](auto x) {
      return gradients(sum(square(layers(x, reverse))), std::vector{x[0], x[1]})[1];
    });
  }
  Graph graph;
  const std::vector<Tensor> x{graph.input({GetParam(), inputs[0]}),
                              graph.input({GetParam(), inputs[1]}),
                              graph.input({GetParam(), inputs[2]})};
  const std::string text =
      emit(graph, std::vector{layers(x, false)}, with_kernels({.min_flops = 0}));
  EXPECT_NE(text.find("stacked = array<i64: 0, 1>"), std::string::npos);
  EXPECT_NE(text.find("stacked = array<i64: 1, 0>"), std::string::npos);
}

TEST_P(CpuDot, DoesNotCopyOrWidenTheStackOfALoop) {
  Graph graph;
  constexpr int64_t kLayers = 16;
  constexpr int64_t kWidth = 256;
  const Tensor x = graph.input({GetParam(), {64, kWidth}});
  const Tensor stack = graph.input({GetParam(), {kLayers, kWidth, kWidth}});
  const auto body = [](std::span<const Tensor> carry, std::span<const Tensor> w) {
    return ScanResult{{matmul(carry[0], w[0])}, {}};
  };
  const std::vector<Tensor> y{scan({x}, {stack}, {.length = kLayers}, body).carry[0]};
  const runtime::Program program =
      runtime::Program::compile(client(), graph, y, {.emit = with_kernels({.min_flops = 0})});
  // A few activations and the loop's counter, but no layer's weights.
  EXPECT_LT(program.report().memory.temporary, kWidth * kWidth * byte_size(GetParam()));
}

TEST_P(CpuDot, IsRecordedUnderTheModelsPath) {
  Graph graph;
  const Tensor x = graph.input({GetParam(), {4, 64}});
  const Tensor w = graph.input({GetParam(), {64, 32}});
  std::vector<Tensor> y;
  {
    const Graph::Scope scope(graph, "blocks.3/attn1/to_q");
    y.push_back(matmul(x, w));
  }
  const std::vector<HostArray> given{normal(GetParam(), {4, 64}, 1),
                                     normal(GetParam(), {64, 32}, 2)};
  const auto make = [&](bool trace) {
    runtime::ProgramOptions options;
    options.emit = with_kernels({.min_flops = 0, .trace = trace});
    return runtime::Program::compile(client(), graph, y, options);
  };
  const runtime::Program plain = make(false);
  const runtime::Program traced = make(true);
  const HostArray expected = plain.run_on_host(given)[0];
  EXPECT_EQ(traced.run_on_host(given)[0].bytes, expected.bytes);
  trace::start();
  plain.run_on_host(given);
  EXPECT_EQ(traced.run_on_host(given)[0].bytes, expected.bytes);
  const trace::Recording recording = trace::stop();
  ASSERT_EQ(recording.spans.size(), 1U);
  EXPECT_EQ(recording.spans[0].name, "blocks.3/attn1/to_q");
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CpuDot, ::testing::Values(DType::F32, DType::BF16), name_of);

}  // namespace
}  // namespace kinema::kernels
