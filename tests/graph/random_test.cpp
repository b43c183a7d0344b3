#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "graph/evaluate.h"
#include "kinema/core/threefry.h"
#include "kinema/graph/ops.h"

namespace kinema {
namespace {

class Random : public pjrt::CpuTest {};

HostArray key_array(std::array<uint32_t, 2> key) {
  return HostArray::from<uint32_t>(DType::U32, {2}, key);
}

HostArray scalar(uint32_t value) {
  return HostArray::from<uint32_t>(DType::U32, {}, std::array{value});
}

std::vector<uint32_t> words(const HostArray& x) {
  const auto view = x.as<uint32_t>();
  return {view.begin(), view.end()};
}

TEST_F(Random, BitsEqualTheHosts) {
  constexpr std::array<uint32_t, 2> kKey{0x12345678U, 0x9abcdef0U};
  Graph graph;
  const Tensor key = graph.input({DType::U32, {2}});
  const std::vector<Tensor> outputs{random_bits(key, {3, 5}), random_uniform(key, {7}),
                                    random_bits(key, {})};

  const auto results = evaluate(graph, outputs, std::array{key_array(kKey)});

  RandomStream bits(kKey);
  for (const uint32_t word : words(results[0])) {
    EXPECT_EQ(word, bits.bits());
  }
  RandomStream uniform(kKey);
  for (const float value : results[1].as<float>()) {
    EXPECT_EQ(value, uniform.uniform());
  }
  EXPECT_EQ(words(results[2])[0], RandomStream(kKey).bits());
}

TEST_F(Random, KeysEqualTheHosts) {
  constexpr uint64_t kSeed = 0x123456789abcdefU;
  Graph graph;
  const Tensor seed = graph.input({DType::U32, {2}});
  const Tensor step = graph.input({DType::U32, {}});
  const std::vector<Tensor> outputs{fold_in(fold_in(seed, "noise"), step)};

  const std::array<uint32_t, 2> split{static_cast<uint32_t>(kSeed),
                                      static_cast<uint32_t>(kSeed >> 32)};
  const auto results = evaluate(graph, outputs, std::array{key_array(split), scalar(77)});

  const auto host = random_key(kSeed, "noise", 77);
  EXPECT_EQ(words(results[0]), (std::vector<uint32_t>{host[0], host[1]}));
}

// Device and host use the same u and v and differ only in the rounding of log, sqrt and cos. The
// host computes in double and rounds once. On the device the argument 2 pi v < 6.3 is rounded to
// 2^-22 at most, which moves the cosine by as much; sqrt(-2 ln u) is below 5.8 and accurate to a
// few 2^-24: 5.8 * 2^-22 + 6 * 4 * 2^-24 < 3e-6.
TEST_F(Random, NormalsEqualTheHostsUpToRounding) {
  constexpr std::array<uint32_t, 2> kKey{1, 2};
  Graph graph;
  const Tensor key = graph.input({DType::U32, {2}});
  const std::vector<Tensor> outputs{random_normal(key, {25, 2, 40})};

  const auto results = evaluate(graph, outputs, std::array{key_array(kKey)});

  RandomStream host(kKey);
  double sum = 0;
  double squares = 0;
  for (const float value : results[0].as<float>()) {
    EXPECT_NEAR(value, host.normal(), 3e-6);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  // 2000 draws: the mean has an error of 1 / sqrt(2000) = 0.022, the variance of sqrt(2 / 2000) =
  // 0.032; four deviations each.
  EXPECT_NEAR(sum / 2000, 0.0, 0.09);
  EXPECT_NEAR(squares / 2000, 1.0, 0.13);
}

}  // namespace
}  // namespace kinema
