#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "kernels/cpu_kernel.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/cpu/convolution.h"
#include "kinema/kernels/cpu/winograd.h"

namespace kinema::kernels {
namespace {

struct Case {
  Dims x, w;
  ConvolutionAttrs attrs;
};

// Rows, columns and frames that fill tiles and that do not; one, two and three axes; padding on one
// side, none, and negative; strides, dilation, groups; channels for every kind of block.
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
      // Large enough for Winograd tiles: odd sizes, padding of one and two pixels and negative;
      // groups and batch; frames with padding, strides and dilation.
      {{1, 100, 33, 35}, {130, 100, 3, 3}, {{1, 1}, {{1, 1}, {2, -1}}}},
      {{2, 192, 32, 32}, {208, 96, 3, 3}, {{1, 1}, {{1, 1}, {1, 1}}, {}, {1, 1}, 2}},
      {{1, 97, 6, 33, 32}, {99, 97, 3, 3, 3}, {{2, 1, 1}, {{4, 0}, {1, 1}, {0, 2}}, {}, {2, 1, 1}}},
      // Channels for matrix tiles: groups and padding of every kind; several segments per row;
      // several blocks of channels, and of rows; frames with strides and dilation.
      {{2, 64, 3, 18, 47}, {80, 32, 2, 3, 3}, {{1, 1, 1}, {{1, 0}, {1, 1}, {2, -1}}, {}, {}, 2}},
      {{1, 96, 5, 300}, {70, 96, 1, 1}, {{1, 1}, {{0, 0}, {0, 0}}}},
      {{1, 64, 20, 30}, {352, 64, 3, 3}, {{1, 1}, {{1, 1}, {1, 1}}}},
      {{1, 320, 14, 300}, {32, 320, 3, 3}, {{1, 1}, {{-1, 3}, {1, 1}}}},
      {{1, 32, 6, 16, 16}, {48, 32, 3, 3, 3}, {{2, 1, 1}, {{4, 0}, {1, 1}, {0, 2}}, {}, {2, 1, 1}}},
      // Kernel gradients: one, two and three axes, images, padding of every kind; by tiles.
      {{34, 3, 400}, {40, 3, 390}, {{1}, {{2, 1}}}},
      {{40, 2, 20, 22}, {50, 2, 20, 21}, {{1, 1}, {{1, 1}, {-1, 3}}}},
      {{36, 2, 3, 14, 13}, {34, 2, 2, 14, 13}, {{1, 1, 1}, {{0, 0}, {1, 1}, {2, 0}}}},
      {{130, 2, 33, 32}, {97, 2, 33, 32}, {{1, 1}, {{1, 1}, {1, 1}}}},
      {{98, 1, 33, 36}, {100, 1, 32, 35}, {{1, 1}, {{2, -1}, {-1, 2}}}},
  };
  return kCases;
}

class CpuConvolution : public CpuKernel {
 protected:
  static EmitOptions with_kernel() {
    return with_kernels({.min_flops = 0, .min_convolution_flops = 0});
  }
  /// Sums of n products of normal numbers in another order than the compiler's; a bf16 result may
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
  std::vector<Case> all = cases();
  // More channels than have transformed kernels in memory at a time.
  if (GetParam() == DType::F32) {
    all.push_back({{1, 1030, 32, 32}, {500, 1030, 3, 3}, {{1, 1}, {{1, 1}, {1, 1}}}});
    all.push_back({{1030, 1, 32, 32}, {1040, 1, 32, 32}, {{1, 1}, {{1, 1}, {1, 1}}}});
  }
  for (const Case& given : all) {
    SCOPED_TRACE(to_string(given.x) + " by " + to_string(given.w));
    Graph graph;
    const Tensor x = graph.input({GetParam(), given.x});
    const Tensor w = graph.input({GetParam(), given.w});
    const std::vector<Tensor> outputs{convolution(x, w, given.attrs)};
    // The compiler sometimes sums bf16 in bf16, so it gets the same numbers in f32.
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
  // One tile and several; channels that fill the last block and that do not; the first or the last
  // frame.
  for (const Part& part : {Part{{1, 20, 1, 8, 8}, {256, 20, 3, 3, 3}, 2, 1},
                           Part{{1, 24, 3, 40, 40}, {150, 24, 4, 3, 3}, 1, 2},
                           Part{{2, 17, 2, 6, 70}, {33, 17, 3, 1, 1}, 0, 1},
                           Part{{1, 32, 3, 8, 46}, {64, 32, 4, 3, 3}, 1, 2}}) {
    SCOPED_TRACE(to_string(part.x) + " by " + to_string(part.w));
    const int64_t border = part.w[3] / 2;
    const ConvolutionAttrs attrs{.strides = {1, 1, 1},
                                 .pad = {{0, 0}, {border, border}, {border, border}}};
    Graph sliced;
    const Tensor x = sliced.input({GetParam(), part.x});
    const Tensor w = sliced.input({GetParam(), part.w});
    const Tensor some = slice(w, Axis(2), part.start, part.size);
    const std::vector<Tensor> outputs{convolution(x, some, attrs)};
    // A barrier between slice and convolution: the kernel gets a copy.
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
  struct Run {
    Case given;
    Dims y;
  };
  const ConvolutionAttrs plane{{1, 1}, {{1, 1}, {1, 1}}, {1, 1}, {1, 1}};
  const ConvolutionAttrs frames{{1, 1, 1}, {{0, 0}, {1, 1}, {1, 1}}, {1, 1, 1}, {1, 1, 1}};
  for (const auto& [given, y] :
       {Run{{{1, 40, 4, 20, 70}, {200, 40, 3, 3, 3}, frames}, {1, 200, 2, 20, 70}},
        Run{{{1, 100, 4, 20, 70}, {200, 100, 3, 3, 3}, frames}, {1, 200, 2, 20, 70}},
        Run{{{1, 64, 4, 20, 70}, {200, 64, 3, 3, 3}, frames}, {1, 200, 2, 20, 70}},
        Run{{{300, 2, 20, 21}, {40, 2, 20, 21}, plane}, {300, 40, 3, 3}},
        Run{{{97, 2, 32, 33}, {100, 2, 32, 33}, plane}, {97, 100, 3, 3}}}) {
    const HostArray x = normal(GetParam(), given.x, 1);
    const HostArray w = normal(GetParam(), given.w, 2);
    const auto one = run_alone(given, GetParam(), x, w, y, 1);
    EXPECT_EQ(one, run_alone(given, GetParam(), x, w, y, 3));
    EXPECT_EQ(one, run_alone(given, GetParam(), x, w, y, 7));
  }
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
  for (const Dims& kernel : {Dims{72, 48, 3, 3, 3}, Dims{72, 48, 3, 1, 1}, Dims{72, 48, 1, 1, 1},
                             Dims{96, 96, 3, 3, 3}, Dims{64, 64, 3, 3, 3}}) {
    const int64_t reach = kernel[2] - 1;
    const int64_t border = kernel[3] / 2;
    const int64_t height = kernel[0] == 72 ? 18 : 46;
    const int64_t width = kernel[0] == 64 ? 30 : 22;
    const Case whole{
        {1, kernel[1], 9, height, width},
        kernel,
        {{1, 1, 1}, {{0, 0}, {border, border}, {border, border}}, {1, 1, 1}, {1, 1, 1}}};
    const HostArray x = normal(GetParam(), whole.x, 1);
    const HostArray w = normal(GetParam(), whole.w, 2);
    HostArray y(Shape{GetParam(), {1, kernel[0], 9 - reach, height, width}});
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

/// Bound on the rounding error of a Winograd sum, for one pixel of the result: the magnitudes of
/// all terms, times the rounding errors on its longest path.
double winograd_bound(const HostArray& x, const HostArray& w, int64_t out, int64_t row,
                      int64_t column) {
  using Square = std::array<std::array<double, 4>, 4>;
  constexpr double kInput[4][4] = {{1, 0, 1, 0}, {0, 1, 1, 0}, {0, 1, 1, 0}, {0, 1, 0, 1}};
  constexpr double kKernel[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, .5, .5}, {0, 0, 1}};
  constexpr double kResult[2][4] = {{1, 1, 1, 0}, {0, 1, 1, 1}};
  const int64_t channels = w.shape.dims[1];
  const int64_t height = x.shape.dims[2];
  const int64_t width = x.shape.dims[3];
  Square sums{};
  for (int64_t c = 0; c < channels; ++c) {
    const float* g = w.as<float>().data() + (out * channels + c) * 9;
    const auto pixel = [&](int64_t i, int64_t j) {
      const int64_t y = row / 2 * 2 + i - 1;
      const int64_t z = column / 2 * 2 + j - 1;
      const bool inside = y >= 0 && y < height && z >= 0 && z < width;
      return inside ? std::abs(x.as<float>()[static_cast<size_t>((c * height + y) * width + z)])
                    : 0.0F;
    };
    for (size_t i = 0; i < 4; ++i) {
      for (size_t j = 0; j < 4; ++j) {
        double inputs = 0;
        double kernels = 0;
        for (size_t a = 0; a < 4; ++a) {
          for (size_t b = 0; b < 4; ++b) {
            inputs += kInput[i][a] * kInput[j][b] *
                      static_cast<double>(pixel(static_cast<int64_t>(a), static_cast<int64_t>(b)));
            kernels += a < 3 && b < 3 ? kKernel[i][a] * kKernel[j][b] *
                                            std::abs(static_cast<double>(g[a * 3 + b]))
                                      : 0.0;
          }
        }
        sums[i][j] += inputs * kernels;
      }
    }
  }
  double magnitude = 0;
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 4; ++j) {
      magnitude += kResult[row % 2][i] * kResult[column % 2][j] * sums[i][j];
    }
  }
  // Two additions for inputs, four for kernels, a product, the sum over channels, four for results.
  return magnitude * static_cast<double>(channels + 11) * 0x1p-24;
}

TEST(Winograd, IsAsNearAsTheMagnitudesOnItsWayAllow) {
  const Dims x_dims{1, 160, 40, 33};
  const Dims w_dims{112, 160, 3, 3};
  const auto plan =
      convolution_plan(x_dims, w_dims, {1, 112, 40, 33}, {{1, 1}, {{1, 1}, {1, 1}}, {}, {1, 1}});
  ASSERT_TRUE(is_winograd(*plan, DType::F32));
  const HostArray x = normal(DType::F32, x_dims, 1);
  const HostArray w = normal(DType::F32, w_dims, 2);
  HostArray y(Shape{DType::F32, {1, 112, 40, 33}});
  winograd_convolution(*plan, DType::F32, x.bytes.data(), w.bytes.data(), y.bytes.data(),
                       on_threads(2), {});
  double largest_part = 0;
  for (int64_t i = 0; i < 112 * 40 * 33; i += 1009) {
    const int64_t column = i % 33;
    const int64_t row = i / 33 % 40;
    const int64_t out = i / 33 / 40;
    double expected = 0;
    for (int64_t c = 0; c < 160; ++c) {
      for (int64_t tap = 0; tap < 9; ++tap) {
        const int64_t from = row + tap / 3 - 1;
        const int64_t at = column + tap % 3 - 1;
        if (from >= 0 && from < 40 && at >= 0 && at < 33) {
          expected +=
              static_cast<double>(x.as<float>()[static_cast<size_t>((c * 40 + from) * 33 + at)]) *
              static_cast<double>(w.as<float>()[static_cast<size_t>((out * 160 + c) * 9 + tap)]);
        }
      }
    }
    const double error = std::abs(y.as<float>()[static_cast<size_t>(i)] - expected);
    const double bound = winograd_bound(x, w, out, row, column);
    ASSERT_LE(error, bound) << "at " << out << ", " << row << ", " << column;
    largest_part = std::max(largest_part, error / bound);
  }
  EXPECT_GT(largest_part, 0.0);  // something was rounded
}

TEST(Winograd, IsForLargeImagesAndKernelsOfThreeByThreeAlone) {
  const auto takes = [](const Dims& x, const Dims& w, const Dims& y, const ConvolutionAttrs& attrs,
                        DType dtype = DType::F32) {
    return is_winograd(*convolution_plan(x, w, y, attrs), dtype);
  };
  const ConvolutionAttrs plain{{1, 1}, {{1, 1}, {1, 1}}, {}, {1, 1}};
  EXPECT_TRUE(takes({1, 96, 32, 32}, {96, 96, 3, 3}, {1, 96, 32, 32}, plain));
  EXPECT_FALSE(takes({1, 95, 32, 32}, {96, 95, 3, 3}, {1, 96, 32, 32}, plain));
  EXPECT_FALSE(takes({1, 96, 32, 32}, {95, 96, 3, 3}, {1, 95, 32, 32}, plain));
  EXPECT_FALSE(takes({1, 96, 30, 32}, {96, 96, 3, 3}, {1, 96, 30, 32}, plain));
  EXPECT_FALSE(takes({1, 96, 64, 64}, {96, 96, 3, 3}, {1, 96, 32, 32},
                     {{2, 2}, {{1, 0}, {1, 0}}, {}, {1, 1}}));
  EXPECT_FALSE(takes({1, 96, 32, 32}, {96, 96, 3, 3}, {1, 96, 32, 32},
                     {{1, 1}, {{2, 2}, {2, 2}}, {}, {2, 2}}));
  EXPECT_FALSE(takes({1, 96, 32, 32}, {96, 96, 3, 5}, {1, 96, 32, 32},
                     {{1, 1}, {{1, 1}, {2, 2}}, {}, {1, 1}}));
  EXPECT_EQ(takes({1, 96, 32, 32}, {96, 96, 3, 3}, {1, 96, 32, 32}, plain, DType::BF16),
            product_dtype(DType::BF16) == DType::F32);
}

TEST(ConvolutionPlan, LeavesUnsupportedConvolutions) {
  const auto plan = [](const Dims& x, const Dims& w, const Dims& y, const ConvolutionAttrs& attrs) {
    return convolution_plan(x, w, y, attrs).has_value();
  };
  EXPECT_TRUE(plan({1, 2, 5}, {4, 2, 3}, {1, 4, 3}, {{1}, {{0, 0}}, {1}, {1}}));
  // dilated x, a large kernel, an empty operand, no spatial axis, four of them
  EXPECT_FALSE(plan({1, 2, 5}, {4, 2, 3}, {1, 4, 7}, {{1}, {{0, 0}}, {2}, {1}}));
  EXPECT_FALSE(plan({1, 2, 400}, {4, 2, 398}, {1, 4, 3}, {{1}, {{0, 0}}, {1}, {1}}));
  EXPECT_TRUE(plan({32, 2, 400}, {40, 2, 398}, {32, 40, 3}, {{1}, {{0, 0}}, {1}, {1}}));
  EXPECT_FALSE(plan({32, 2, 400}, {40, 2, 370}, {32, 40, 31}, {{1}, {{0, 0}}, {1}, {1}}));
  EXPECT_FALSE(plan({32, 2, 800}, {40, 2, 398}, {32, 40, 3}, {{1}, {{0, 0}}, {1}, {2}}));
  EXPECT_FALSE(plan({0, 2, 5}, {4, 2, 3}, {0, 4, 3}, {{1}, {{0, 0}}, {1}, {1}}));
  EXPECT_FALSE(plan({1, 2}, {4, 2}, {1, 4}, {}));
  EXPECT_FALSE(plan({1, 2, 1, 1, 1, 1}, {4, 2, 1, 1, 1, 1}, {1, 4, 1, 1, 1, 1},
                    {{1, 1, 1, 1}, {{}, {}, {}, {}}, {1, 1, 1, 1}, {1, 1, 1, 1}}));
}

TEST(ConvolutionPlan, SurvivesSerialization) {
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
