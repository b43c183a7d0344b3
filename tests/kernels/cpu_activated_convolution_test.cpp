#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cpu_kernel.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/scan.h"
#include "kinema/kernels/cpu/convolution.h"
#include "kinema/kernels/cpu/group_norm.h"
#include "kinema/kernels/settings.h"

namespace kinema::kernels {
namespace {

struct Case {
  Dims x, w;
  int64_t groups;
  ConvolutionAttrs attrs;
};

// By oneDNN and by Winograd tiles; two samples; rows that do not fill a tile; channels that do not
// fill a block; one and three axes; groups of one channel, of all channels, and of convolutions.
const std::vector<Case>& cases() {
  static const std::vector<Case> kCases{
      {{2, 12, 9, 35}, {7, 12, 3, 3}, 3, {{1, 1}, {{1, 1}, {1, 1}}}},
      {{1, 40, 20, 70}, {150, 40, 3, 3}, 40, {{1, 1}, {{1, 1}, {0, 2}}}},
      {{2, 24, 7, 5}, {32, 24, 1, 1}, 1, {{1, 1}, {{0, 0}, {0, 0}}}},
      {{2, 100, 33, 140}, {104, 100, 3, 3}, 10, {{1, 1}, {{1, 1}, {1, 1}}}},
      {{1, 192, 34, 32}, {208, 96, 3, 3}, 32, {{1, 1}, {{1, 1}, {1, 1}}, {}, {}, 2}},
      {{1, 32, 40, 40}, {48, 16, 3, 3}, 4, {{2, 2}, {{1, 0}, {1, 0}}, {}, {}, 2}},
      {{1, 16, 3, 9, 10}, {20, 16, 3, 3, 3}, 4, {{1, 1, 1}, {{2, 0}, {1, 1}, {1, 1}}}},
      {{1, 16, 50}, {20, 16, 3}, 4, {{1}, {{1, 1}}}},
      // By matrix tiles, which process 32 channels at a time.
      {{2, 128, 9, 30}, {96, 64, 3, 3}, 8, {{1, 1}, {{1, 1}, {1, 1}}, {}, {}, 2}},
  };
  return kCases;
}

constexpr double kEpsilon = 1e-5;

/// silu(norm(x) scale + shift), in F32.
Tensor activated(Tensor x, Tensor scale, Tensor shift, int64_t groups) {
  Dims per_channel(x.shape().dims.size() - 1, 1);
  per_channel[0] = x.dim(1);
  const Tensor wide = convert(x, DType::F32);
  const Tensor normed =
      reshape(layer_norm(reshape(wide, {x.dim(0), groups, -1}), kEpsilon), x.shape().dims);
  return silu(normed * reshape(scale, per_channel) + reshape(shift, per_channel));
}

Tensor of_activated(const Case& given, std::span<const Tensor> in) {
  return fused("activated_convolution",
               ActivatedConvolutionSettings{
                   .groups = given.groups, .epsilon = kEpsilon, .convolution = given.attrs},
               {in.begin(), in.end()}, [&](std::span<const Tensor> inside) -> std::vector<Tensor> {
                 const DType dtype = inside[0].dtype();
                 const Tensor x =
                     convert(activated(inside[0], inside[1], inside[2], given.groups), dtype);
                 const Tensor y = convert(convolution(x, inside[3], given.attrs), DType::F32);
                 Dims per_channel(y.shape().dims.size() - 1, 1);
                 per_channel[0] = y.dim(1);
                 return {convert(y + reshape(inside[4], per_channel), dtype)};
               })[0];
}

std::vector<Tensor> inputs(Graph& graph, const Case& given, DType dtype) {
  const Dims channels{given.x[1]};
  return {graph.input({dtype, given.x}), graph.input({DType::F32, channels}),
          graph.input({DType::F32, channels}), graph.input({dtype, given.w}),
          graph.input({DType::F32, {given.w[0]}})};
}

/// x is far from zero, where a variance computed as a difference of squares would lose its digits.
std::vector<HostArray> arguments(const Case& given, DType dtype) {
  HostArray x = normal(DType::F32, given.x, 1);
  for (float& value : x.as<float>()) {
    value = 0.5F * value + 7.0F;
  }
  const Dims channels{given.x[1]};
  return {convert(x, dtype), normal(DType::F32, channels, 2), normal(DType::F32, channels, 3),
          normal(dtype, given.w, 4), normal(DType::F32, {given.w[0]}, 5)};
}

class CpuActivatedConvolution : public CpuKernel {
 protected:
  static EmitOptions with_kernel() {
    return with_kernels({.min_flops = 0, .min_convolution_flops = 0});
  }
};

TEST_P(CpuActivatedConvolution, EqualsTheCompilersOwn) {
  for (const Case& given : cases()) {
    SCOPED_TRACE(to_string(given.x) + " by " + to_string(given.w));
    Graph graph;
    const std::vector<Tensor> outputs{of_activated(given, inputs(graph, given, GetParam()))};
    const std::string text = emit(graph, outputs, with_kernel());
    ASSERT_NE(text.find(kActivatedConvolutionTarget), std::string::npos);
    EXPECT_EQ(text.find("stablehlo.rsqrt"), std::string::npos);
    const std::vector<HostArray> in = arguments(given, GetParam());
    const HostArray actual =
        convert(runtime::Program::compile(client(), graph, outputs, {.emit = with_kernel()})
                    .run_on_host(in)[0],
                DType::F32);

    // The same numbers in F32: the compiler sometimes sums bf16 in bf16.
    Graph wide;
    std::vector<HostArray> widened;
    for (const HostArray& array : in) {
      widened.push_back(convert(array, DType::F32));
    }
    const std::vector<Tensor> plain{of_activated(given, inputs(wide, given, DType::F32))};
    const HostArray expected = runtime::Program::compile(client(), wide, plain, {.kernels = false})
                                   .run_on_host(widened)[0];
    const double largest_value = largest(expected);
    EXPECT_GT(largest_value, 1.0);
    // As for convolutions; rounded activations double the bf16 errors.
    EXPECT_LE(largest_difference(actual, expected),
              largest_value * (GetParam() == DType::BF16 ? 0x1p-7 : 0x1p-24 * 64));
  }
}

TEST_P(CpuActivatedConvolution, GivesTheSameBitsWithAnyNumberOfThreads) {
  for (const size_t number : {0, 1, 3}) {
    const Case& given = cases()[number];
    const std::vector<HostArray> in = arguments(given, GetParam());
    const auto run = [&](int64_t threads) {
      Graph graph;
      const std::vector<Tensor> of = inputs(graph, given, GetParam());
      HostArray y(convolution(of[0], of[3], given.attrs).shape());
      const auto plan = convolution_plan(given.x, given.w, y.shape.dims, given.attrs);
      const GroupNormPlan norm{given.x[0], given.x[1], given.x[2] * given.x[3], given.groups,
                               kEpsilon};
      const auto channels =
          activated_channels(norm, GetParam(), in[0].bytes.data(), in[1].as<float>().data(),
                             in[2].as<float>().data(), on_threads(threads));
      convolution(*plan, GetParam(), in[0].bytes.data(), in[3].bytes.data(), y.bytes.data(),
                  on_threads(threads),
                  {.channels = channels.data(), .bias = in[4].as<float>().data()});
      return std::vector<std::byte>(y.bytes.begin(), y.bytes.end());
    };
    const auto one = run(1);
    EXPECT_EQ(one, run(3));
    EXPECT_EQ(one, run(7));
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CpuActivatedConvolution,
                         ::testing::Values(DType::F32, DType::BF16), name_of);

class CpuActivatedConvolutionOnly : public CpuActivatedConvolution {};

TEST_P(CpuActivatedConvolutionOnly, GradientsAreThoseOfItsParts) {
  const Case& given = cases()[0];
  const auto run = [&](bool kernels) {
    Graph graph;
    const std::vector<Tensor> in = inputs(graph, given, DType::F32);
    const std::vector<Tensor> grads = gradients(sum(square(of_activated(given, in))), in);
    runtime::ProgramOptions options;
    if (kernels) {
      options.emit = with_kernel();
    } else {
      options.kernels = false;
    }
    return runtime::Program::compile(client(), graph, grads, options)
        .run_on_host(arguments(given, DType::F32));
  };
  const auto expected = run(false);
  const auto actual = run(true);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(largest_difference(actual[i], expected[i]), largest(expected[i]) * 0x1p-24 * 256)
        << "of operand " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(F32, CpuActivatedConvolutionOnly, ::testing::Values(DType::F32));

TEST(ActivatedChannel, IsSiluOfEveryNumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x{0.0F, -0.0F, 1e-30F, -1e-30F, 88.0F, -86.0F, -120.0F, 1e30F, kInfinity};
  for (int i = -400; i <= 400; ++i) {
    x.push_back(static_cast<float>(i) * 0.1F);
  }
  std::vector<float> y = x;
  activate(y.data(), static_cast<int64_t>(y.size()), {.mean = 0, .scale = 1, .shift = 0});
  for (size_t i = 0; i < x.size(); ++i) {
    const double of = x[i];
    const double expected = x[i] == kInfinity ? of : of / (1.0 + std::exp(-of));
    // Two units of the exponential, and three roundings; if the exponential is 0, so is the result.
    const double bound = of < -87.0 ? 1e-35 : std::abs(expected) * 6 * 0x1p-24;
    if (x[i] != kInfinity) {
      EXPECT_LE(std::abs(y[i] - expected), bound) << "at " << of;
    }
  }
  EXPECT_EQ(y[8], kInfinity);
  float nan = std::numeric_limits<float>::quiet_NaN();
  activate(&nan, 1, {.mean = 0, .scale = 1, .shift = 0});
  EXPECT_TRUE(std::isnan(nan));
}

}  // namespace
}  // namespace kinema::kernels
