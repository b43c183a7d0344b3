#include <gtest/gtest.h>

#include "kernels/cpu_kernel.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/cpu/convolution.h"

namespace kinema::kernels {
namespace {

struct Case {
  Dims x, w;
  ConvolutionAttrs attrs;
};

// Rows, columns and frames that fill tiles and that do not; one, two and three axes; borders on one
// side, on none, and cut off; strides, dilation, groups; channels of every kind of block.
const std::vector<Case>& cases() {
  static const std::vector<Case> kCases{
      {{1, 16, 3, 16, 16}, {32, 16, 3, 3, 3}, {{1, 1, 1}, {{0, 0}, {1, 1}, {1, 1}}}},
      {{1, 5, 4, 9, 70}, {7, 5, 3, 3, 3}, {{1, 1, 1}, {{2, 0}, {1, 1}, {1, 1}}}},
      {{2, 20, 2, 35, 33}, {150, 20, 2, 3, 3}, {{1, 1, 1}, {{1, 0}, {1, 1}, {1, 1}}}},
      {{2, 24, 5, 6, 7}, {40, 24, 3, 1, 1}, {{2, 1, 1}, {{0, 0}, {0, 0}, {0, 0}}}},
      {{1, 17, 6, 4, 5}, {33, 17, 1, 1, 1}, {{1, 1, 1}, {{0, 0}, {0, 0}, {0, 0}}}},
      {{3, 16, 33, 65}, {16, 16, 3, 3}, {{2, 2}, {{0, 1}, {0, 1}}}},
      {{1, 3, 20, 20}, {300, 3, 4, 5}, {{1, 2}, {{-1, 3}, {4, -2}}}},
      {{1, 32, 24, 24}, {48, 16, 3, 3}, {{1, 1}, {{2, 2}, {2, 2}}, {}, {2, 2}, 2}},
      {{2, 40, 600}, {50, 40, 7}, {{1}, {{3, 3}}}},
      {{1, 12, 9, 3, 3}, {12, 12, 3, 3, 3}, {{2, 1, 1}, {{4, 4}, {1, 1}, {1, 1}}, {}, {3, 1, 1}}},
  };
  return kCases;
}

class CpuConvolution : public CpuKernel {
 protected:
  static EmitOptions with_kernel() {
    return with_kernels({.min_flops = 0, .min_convolution_flops = 0});
  }
  /// Sums of n products of normal numbers, in another order than the compiler's; a bf16 result may
  /// round to the neighbouring value.
  static double tolerance(DType dtype, double largest) {
    return largest * (dtype == DType::BF16 ? 0x1p-8 : 0x1p-24 * 64);
  }
};

void expect_near(const HostArray& actual, const HostArray& expected,
                 double tolerance_of_largest(DType, double), DType dtype) {
  ASSERT_EQ(actual.shape, expected.shape);
  const HostArray a = convert(actual, DType::F32);
  const HostArray e = convert(expected, DType::F32);
  EXPECT_GT(largest(e), 1.0);
  EXPECT_LE(largest_difference(a, e), tolerance_of_largest(dtype, largest(e)));
}

TEST_P(CpuConvolution, EqualsTheCompilersOwn) {
  for (const Case& given : cases()) {
    SCOPED_TRACE(to_string(given.x) + " by " + to_string(given.w));
    Graph graph;
    const Tensor x = graph.input({GetParam(), given.x});
    const Tensor w = graph.input({GetParam(), given.w});
    const std::vector<Tensor> outputs{convolution(x, w, given.attrs)};
    // The compiler sums bf16 in bf16 here and there: it is given the same numbers in f32.
    Graph wide;
    const Tensor wide_x = wide.input({DType::F32, given.x});
    const Tensor wide_w = wide.input({DType::F32, given.w});
    const std::vector<Tensor> wide_outputs{
        convert(convolution(wide_x, wide_w, given.attrs), GetParam())};
    const HostArray a = normal(GetParam(), given.x, 1);
    const HostArray b = normal(GetParam(), given.w, 2);
    const auto expected =
        runtime::Program::compile(client(), wide, wide_outputs, {.kernels = false})
            .run_on_host(std::vector{convert(a, DType::F32), convert(b, DType::F32)});
    ASSERT_NE(emit(graph, outputs, with_kernel()).find(kConvolutionTarget), std::string::npos);
    const auto actual = runtime::Program::compile(client(), graph, outputs, {.emit = with_kernel()})
                            .run_on_host(std::vector{a, b});
    expect_near(actual[0], expected[0], tolerance, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CpuConvolution, ::testing::Values(DType::F32, DType::BF16),
                         name_of);

class CpuConvolutionOnly : public CpuConvolution {};

TEST_P(CpuConvolutionOnly, GradientsEqualTheCompilersOwn) {
  for (const Case& given : cases()) {
    SCOPED_TRACE(to_string(given.x) + " by " + to_string(given.w));
    Graph graph;
    const Tensor x = graph.input({DType::F32, given.x});
    const Tensor w = graph.input({DType::F32, given.w});
    const Tensor y = convolution(x, w, given.attrs);
    const std::vector<Tensor> grads = gradients(sum(square(y)), std::vector{x, w});
    const std::vector<HostArray> arguments{normal(DType::F32, given.x, 1),
                                           normal(DType::F32, given.w, 2)};
    const auto expected = runtime::Program::compile(client(), graph, grads, {.kernels = false})
                              .run_on_host(arguments);
    const auto actual = runtime::Program::compile(client(), graph, grads, {.emit = with_kernel()})
                            .run_on_host(arguments);
    for (size_t i = 0; i < 2; ++i) {
      expect_near(actual[i], expected[i], tolerance, DType::F32);
    }
  }
}

TEST_P(CpuConvolution, ReadsSomeFramesOfAStoredKernelWhereTheyLie) {
  struct Part {
    Dims x, w;
    int64_t start, size;
  };
  // One tile and several; channels that fill the last block and that do not; a frame at either end.
  for (const Part& part : {Part{{1, 20, 1, 8, 8}, {256, 20, 3, 3, 3}, 2, 1},
                           Part{{1, 24, 3, 40, 40}, {150, 24, 4, 3, 3}, 1, 2},
                           Part{{2, 17, 2, 6, 70}, {33, 17, 3, 1, 1}, 0, 1}}) {
    SCOPED_TRACE(to_string(part.x) + " by " + to_string(part.w));
    const int64_t border = part.w[3] / 2;
    const ConvolutionAttrs attrs{.strides = {1, 1, 1},
                                 .pad = {{0, 0}, {border, border}, {border, border}}};
    Graph sliced;
    const Tensor x = sliced.input({GetParam(), part.x});
    const Tensor w = sliced.input({GetParam(), part.w});
    const Tensor some = slice(w, Axis(2), part.start, part.size);
    const std::vector<Tensor> outputs{convolution(x, some, attrs)};
    // A wall between slice and convolution: the kernel is given a copy.
    const std::vector<Tensor> copied{convolution(x, optimization_barrier({some})[0], attrs)};
    const std::vector<HostArray> arguments{normal(GetParam(), part.x, 1),
                                           normal(GetParam(), part.w, 2)};
    const auto expected =
        runtime::Program::compile(client(), sliced, copied, {.emit = with_kernel()})
            .run_on_host(arguments);
    const auto program =
        runtime::Program::compile(client(), sliced, outputs, {.emit = with_kernel()});
    EXPECT_EQ(program.executable().optimized_text().find(" slice("), std::string::npos);
    const auto actual = program.run_on_host(arguments);
    EXPECT_GT(largest(convert(actual[0], DType::F32)), 1.0);
    EXPECT_TRUE(std::ranges::equal(actual[0].bytes, expected[0].bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(F32, CpuConvolutionOnly, ::testing::Values(DType::F32));

// ---- The kernel alone --------------------------------------------------------------------------

std::vector<std::byte> run_alone(const Case& given, DType dtype, const HostArray& x,
                                 const HostArray& w, const Dims& y, int64_t threads) {
  const auto plan = convolution_plan(given.x, given.w, y, given.attrs);
  HostArray result(Shape{dtype, y});
  convolution(*plan, dtype, x.bytes.data(), w.bytes.data(), result.bytes.data(),
              on_threads(threads));
  const auto bytes = result.bytes;
  return {bytes.begin(), bytes.end()};
}

TEST_P(CpuConvolution, GivesTheSameBitsWithAnyNumberOfThreads) {
  const Case given{{1, 40, 4, 20, 70},
                   {200, 40, 3, 3, 3},
                   {{1, 1, 1}, {{0, 0}, {1, 1}, {1, 1}}, {1, 1, 1}, {1, 1, 1}}};
  const HostArray x = normal(GetParam(), given.x, 1);
  const HostArray w = normal(GetParam(), given.w, 2);
  const Dims y{1, 200, 2, 20, 70};
  const auto one = run_alone(given, GetParam(), x, w, y, 1);
  EXPECT_EQ(one, run_alone(given, GetParam(), x, w, y, 3));
  EXPECT_EQ(one, run_alone(given, GetParam(), x, w, y, 7));
}

/// Frames `first` .. `first + count` of [1, c, f, h, w].
HostArray frames(const HostArray& x, int64_t first, int64_t count) {
  Dims dims = x.shape.dims;
  const int64_t plane = dims[3] * dims[4] * byte_size(x.shape.dtype);
  const int64_t all = dims[2];
  dims[2] = count;
  HostArray part(Shape{x.shape.dtype, dims});
  for (int64_t c = 0; c < dims[1]; ++c) {
    std::memcpy(part.bytes.data() + c * count * plane, x.bytes.data() + (c * all + first) * plane,
                static_cast<size_t>(count * plane));
  }
  return part;
}

TEST_P(CpuConvolution, GivesTheSameBitsForAFrameInAnyChunk) {
  for (const Dims& kernel : {Dims{72, 48, 3, 3, 3}, Dims{72, 48, 3, 1, 1}, Dims{72, 48, 1, 1, 1}}) {
    const int64_t reach = kernel[2] - 1;
    const int64_t border = kernel[3] / 2;
    const Case whole{
        {1, 48, 9, 18, 22},
        kernel,
        {{1, 1, 1}, {{0, 0}, {border, border}, {border, border}}, {1, 1, 1}, {1, 1, 1}}};
    const HostArray x = normal(GetParam(), whole.x, 1);
    const HostArray w = normal(GetParam(), whole.w, 2);
    HostArray y(Shape{GetParam(), {1, 72, 9 - reach, 18, 22}});
    const auto all = run_alone(whole, GetParam(), x, w, y.shape.dims, 2);
    std::memcpy(y.bytes.data(), all.data(), all.size());
    for (const int64_t chunk : {1, 2, 3, 5}) {
      for (int64_t first = 0; first + chunk <= 9 - reach; first += chunk) {
        const HostArray part = frames(x, first, chunk + reach);
        Case given = whole;
        given.x = part.shape.dims;
        const HostArray expected = frames(y, first, chunk);
        const auto actual = run_alone(given, GetParam(), part, w, expected.shape.dims, 2);
        ASSERT_TRUE(std::ranges::equal(actual, expected.bytes))
            << chunk << " frames at " << first << " of " << to_string(kernel);
      }
    }
  }
}

TEST(ConvolutionPlan, LeavesWhatItDoesNotCover) {
  const auto plan = [](const Dims& x, const Dims& w, const Dims& y, const ConvolutionAttrs& attrs) {
    return convolution_plan(x, w, y, attrs).has_value();
  };
  EXPECT_TRUE(plan({1, 2, 5}, {4, 2, 3}, {1, 4, 3}, {{1}, {{0, 0}}, {1}, {1}}));
  // zeros between the elements of x, a large kernel, an empty operand, no spatial axis, four of
  // them
  EXPECT_FALSE(plan({1, 2, 5}, {4, 2, 3}, {1, 4, 7}, {{1}, {{0, 0}}, {2}, {1}}));
  EXPECT_FALSE(plan({1, 2, 400}, {4, 2, 398}, {1, 4, 3}, {{1}, {{0, 0}}, {1}, {1}}));
  EXPECT_FALSE(plan({0, 2, 5}, {4, 2, 3}, {0, 4, 3}, {{1}, {{0, 0}}, {1}, {1}}));
  EXPECT_FALSE(plan({1, 2}, {4, 2}, {1, 4}, {}));
  EXPECT_FALSE(plan({1, 2, 1, 1, 1, 1}, {4, 2, 1, 1, 1, 1}, {1, 4, 1, 1, 1, 1},
                    {{1, 1, 1, 1}, {{}, {}, {}, {}}, {1, 1, 1, 1}, {1, 1, 1, 1}}));
}

TEST(ConvolutionPlan, SurvivesTheWayThroughAProgram) {
  const auto plan =
      convolution_plan({2, 6, 5, 6, 7}, {8, 3, 1, 2, 3}, {2, 8, 3, 5, 3},
                       {{2, 1, 2}, {{0, 0}, {0, 0}, {1, 1}}, {1, 1, 1}, {1, 1, 2}, 2});
  ASSERT_TRUE(plan.has_value());
  const auto words = to_words(*plan);
  EXPECT_EQ(words, to_words(convolution_from_words(words.data(), std::ssize(words))));
  EXPECT_THROW(convolution_from_words(words.data(), 3), Error);
}

}  // namespace
}  // namespace kinema::kernels
