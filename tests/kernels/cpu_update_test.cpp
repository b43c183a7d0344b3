#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu_kernel.h"
#include "kinema/optimizers/adamw.h"

namespace kinema::optimizers {
namespace {

constexpr int64_t kSize = 3 * 7000;  // more than one piece, and not a multiple of a vector

struct Result {
  std::vector<HostArray> plain, kernel;
};

HostArray values(DType dtype, Dims dims, uint64_t seed, bool positive = false) {
  HostArray x = normal(std::move(dims), seed);
  for (float& value : x.as<float>()) {
    value = positive ? value * value : value;
  }
  return convert(x, dtype);
}

std::vector<nn::ParamSpec> specs() {
  return {{.name = "blocks.{}.w", .shape = {DType::F32, {3, kSize / 3}}, .layers = 3},
          {.name = "b", .shape = {DType::F32, {5}}}};
}

/// One update of two tensors with and without the kernels; outputs p, mu, nu of each, then the sums
/// and the largest magnitudes.
Result update(DType gradient_dtype, const AdamWOptions& options, bool ok, DType kept = DType::F32) {
  Graph graph;
  std::vector<HostArray> arrays;
  const auto input = [&](DType dtype, Dims dims, bool positive = false) {
    arrays.push_back(values(dtype, dims, arrays.size(), positive));
    return graph.input({dtype, dims});
  };
  AdamWState state;
  std::vector<Tensor> gradients;
  for (const nn::ParamSpec& spec : specs()) {
    state.params.push_back(input(kept, spec.shape.dims));
    state.mu.push_back(input(kept, spec.shape.dims));
    state.nu.push_back(input(kept, spec.shape.dims, true));
    gradients.push_back(input(gradient_dtype, spec.shape.dims));
  }
  state.count = constant(graph, 4, {DType::S32, {}});
  const Tensor rate = constant(graph, 1e-2, {DType::F32, {}});
  const GradientSizes sizes = gradient_sizes(specs(), gradients);
  const Tensor flag = constant(graph, ok ? 1 : 0, {DType::PRED, {}});
  const AdamWState next =
      adamw(state, specs(), gradients, sqrt(total(sizes.squares)), rate, options, flag);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < 2; ++i) {
    outputs.insert(outputs.end(), {next.params[i], next.mu[i], next.nu[i]});
  }
  outputs.insert(outputs.end(), {sizes.squares, sizes.largest});
  const auto plain =
      runtime::Program::compile(kernels::client(), graph, outputs, {.kernels = false});
  const auto kernel = runtime::Program::compile(kernels::client(), graph, outputs, {});
  EXPECT_NE(kernel.executable().optimized_text().find(kernels::kAdamWTarget), std::string::npos);
  EXPECT_NE(kernel.executable().optimized_text().find(kernels::kGradientSizesTarget),
            std::string::npos);
  EXPECT_EQ(plain.executable().optimized_text().find(kernels::kAdamWTarget), std::string::npos);
  return {plain.run_on_host(arrays), kernel.run_on_host(arrays)};
}

// Both compute the same formula in F32 with other roundings (fused multiply-add, reciprocals): a
// few units in the last place of values of size 1 to 10, and of sums of 7,000 squares.
void expect_close(const Result& result) {
  for (size_t i = 0; i < result.plain.size(); ++i) {
    const auto want = result.plain[i].as<float>();
    const auto got = result.kernel[i].as<float>();
    for (size_t j = 0; j < want.size(); ++j) {
      ASSERT_NEAR(got[j], want[j], 4e-6 * std::max(1.0F, std::abs(want[j])))
          << "output " << i << ", element " << j;
    }
  }
}

TEST(CpuUpdate, EqualsTheCompilersLoops) {
  expect_close(update(DType::F32, {.weight_decay = 0.1, .max_norm = 1.0}, true));
  expect_close(update(DType::F32, {.b2 = 0.99, .decay_min_rank = 1, .max_value = 0.5}, true));
}

TEST(CpuUpdate, TakesNarrowGradients) {
  expect_close(update(DType::BF16, {.weight_decay = 0.1, .max_norm = 1.0}, true));
}

// The F32 results differ by a few units in the last place, so some fall on the other side of a tie
// between two BF16 values, which differ by at most 2^-8 of the larger one.
TEST(CpuUpdate, RoundsANarrowStateOnce) {
  const Result result =
      update(DType::BF16, {.weight_decay = 0.1, .max_norm = 1.0}, true, DType::BF16);
  for (size_t i = 0; i < 6; ++i) {
    ASSERT_EQ(result.kernel[i].shape.dtype, DType::BF16);
    const HostArray want = convert(result.plain[i], DType::F32);
    const HostArray got = convert(result.kernel[i], DType::F32);
    size_t different = 0;
    for (size_t j = 0; j < want.as<float>().size(); ++j) {
      const float here = got.as<float>()[j];
      const float there = want.as<float>()[j];
      different += here != there ? 1 : 0;
      ASSERT_LE(std::abs(here - there), std::ldexp(std::abs(there), -7)) << i << ", " << j;
    }
    EXPECT_LT(different, want.as<float>().size() / 1000 + 1) << "output " << i;
  }
}

TEST(CpuUpdate, LeavesTheStateUnchangedIfNotFinite) {
  for (const DType kept : {DType::F32, DType::BF16}) {
    const Result result = update(DType::F32, {.weight_decay = 0.1}, false, kept);
    for (size_t i = 0; i < 6; ++i) {  // parameters and moments; the sums may round
      EXPECT_EQ(result.kernel[i].bytes, result.plain[i].bytes);
    }
  }
}

// Without the kernel a BF16 state is copied and widened: 12 GiB of temporaries for the 1.3B model,
// whose gradients take 2.7 GiB.
TEST(CpuUpdate, NeedsNoTemporaryMemory) {
  Graph graph;
  const Shape shape{DType::BF16, {1 << 20}};
  const std::vector<nn::ParamSpec> one{{.name = "w", .shape = shape}};
  const AdamWState state{{graph.input(shape)},
                         {graph.input(shape)},
                         {graph.input(shape)},
                         constant(graph, 4, {DType::S32, {}})};
  const Tensor gradient = graph.input(shape) * 2.0;
  const GradientSizes sizes = gradient_sizes(one, std::array{gradient});
  const Tensor rate = constant(graph, 1e-2, {DType::F32, {}});
  const AdamWState next = adamw(state, one, std::array{gradient}, sqrt(total(sizes.squares)), rate,
                                {.max_value = 0.5, .max_norm = 1.0});
  const auto program = runtime::Program::compile(
      kernels::client(), graph,
      std::array{next.params[0], next.mu[0], next.nu[0], max(sizes.largest)},
      {.emit = {.donate = {{0, 0}, {1, 1}, {2, 2}}}});

  EXPECT_LT(program.executable().memory().temporary, shape.bytes() * 3 / 2);
}

TEST(CpuUpdate, GradientNormsAreNonFiniteIfAnyGradientIs) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const int64_t at : {0, 17, 40}) {  // 40: after the last full vector
      Graph graph;
      const Shape shape{DType::F32, {41}};
      const std::vector<nn::ParamSpec> one{{.name = "w", .shape = shape}};
      const GradientSizes sizes = gradient_sizes(one, std::array{graph.input(shape)});
      std::vector<float> gradient(41, 1.0F);
      gradient[static_cast<size_t>(at)] = value;
      const auto got =
          runtime::evaluate(kernels::client(), graph, std::array{sizes.squares, sizes.largest},
                            std::array{HostArray::f32({41}, std::move(gradient))});
      for (const HostArray& size : got) {
        EXPECT_EQ(std::isnan(size.as<float>()[0]), std::isnan(value));
        EXPECT_FALSE(std::isfinite(size.as<float>()[0]));
      }
    }
  }
}

}  // namespace
}  // namespace kinema::optimizers
