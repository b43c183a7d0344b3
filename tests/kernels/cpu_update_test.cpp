#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu_kernel.h"
#include "train/adamw.h"

namespace kinema::train {
namespace {

constexpr int64_t kSize = 3 * 7000;  // more than one piece, and no multiple of a vector

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

/// One update of two tensors with the kernels and without; outputs p, mu, nu each, then the sums.
Result update(DType gradient_dtype, const AdamWOptions& options, bool ok) {
  Graph graph;
  std::vector<HostArray> arrays;
  const auto input = [&](DType dtype, Dims dims, bool positive = false) {
    arrays.push_back(values(dtype, dims, arrays.size(), positive));
    return graph.input({dtype, dims});
  };
  AdamWState state;
  std::vector<Tensor> gradients;
  for (const nn::ParamSpec& spec : specs()) {
    state.params.push_back(input(DType::F32, spec.shape.dims));
    state.mu.push_back(input(DType::F32, spec.shape.dims));
    state.nu.push_back(input(DType::F32, spec.shape.dims, true));
    gradients.push_back(input(gradient_dtype, spec.shape.dims));
  }
  state.count = constant(graph, 4, {DType::S32, {}});
  const Tensor rate = constant(graph, 1e-2, {DType::F32, {}});
  const Tensor squares = sums_of_squares(specs(), gradients);
  const Tensor flag = constant(graph, ok ? 1 : 0, {DType::PRED, {}});
  const AdamWState next =
      adamw(state, specs(), gradients, sqrt(total(squares)), rate, options, flag);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < 2; ++i) {
    outputs.insert(outputs.end(), {next.params[i], next.mu[i], next.nu[i]});
  }
  outputs.push_back(squares);
  const auto plain =
      runtime::Program::compile(kernels::client(), graph, outputs, {.kernels = false});
  const auto kernel = runtime::Program::compile(kernels::client(), graph, outputs, {});
  EXPECT_NE(kernel.executable().optimized_text().find(kernels::kAdamWTarget), std::string::npos);
  EXPECT_NE(kernel.executable().optimized_text().find(kernels::kSumsOfSquaresTarget),
            std::string::npos);
  EXPECT_EQ(plain.executable().optimized_text().find(kernels::kAdamWTarget), std::string::npos);
  return {plain.run_on_host(arrays), kernel.run_on_host(arrays)};
}

// Both follow the same formula in F32 with other roundings (fused multiply-add, reciprocals): a few
// units in the last place of values of size 1 to 10, and of sums of 7,000 squares.
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

TEST(CpuUpdate, LeavesTheStateAloneWhenTold) {
  const Result result = update(DType::F32, {.weight_decay = 0.1}, false);
  for (size_t i = 0; i < 6; ++i) {  // parameters and moments; the sums may round
    EXPECT_EQ(result.kernel[i].bytes, result.plain[i].bytes);
  }
}

}  // namespace
}  // namespace kinema::train
