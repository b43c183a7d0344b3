#include "kinema/nn/attention_by_rows.h"

#include <gtest/gtest.h>

#include "kinema/core/threefry.h"
#include "kinema/nn/attention.h"
#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::nn {
namespace {

using AttentionByRows = pjrt::CpuTest;

Tensor noise(Graph& graph, int64_t tokens, uint64_t seed) {
  HostArray out(Shape{DType::F32, {2, tokens, 3, 4}});
  RandomStream random(random_key(seed, "attention by rows"));
  for (float& x : out.as<float>()) {
    x = random.normal();
  }
  return constant_f32(graph, out.shape.dims, {out.as<float>().begin(), out.as<float>().end()});
}

// All rows at once, unrolled, and as a loop with a partial last block.
TEST_F(AttentionByRows, IsAttentionHoweverManyRowsAreTakenAtATime) {
  constexpr int64_t kTokens = 29;
  Graph graph;
  const Tensor q = noise(graph, kTokens, 1);
  const Tensor k = noise(graph, kTokens, 2);
  const Tensor v = noise(graph, kTokens, 3);
  std::vector<Tensor> all{attention(q, k, v, {.precision = Precision::HIGHEST})};
  for (const int64_t most : {int64_t{1} << 24, int64_t{300}, int64_t{100}, int64_t{29}}) {
    all.push_back(attention_by_rows(q, k, v, Precision::HIGHEST, most));
  }
  const std::vector<HostArray> found = runtime::evaluate(pjrt::cpu_client(), graph, all);
  for (size_t i = 1; i < found.size(); ++i) {
    ASSERT_EQ(found[i].shape, found[0].shape);
    for (size_t j = 0; j < found[0].as<float>().size(); ++j) {
      // 29 weights of order one, summed in other orders.
      ASSERT_NEAR(found[i].as<float>()[j], found[0].as<float>()[j], 2e-6) << i;
    }
  }
}

TEST_F(AttentionByRows, IsAProgramThatDoesNotGrowWithThePicture) {
  const auto nodes = [](int64_t tokens) {
    Graph graph;
    const Tensor x = graph.input({DType::F32, {1, tokens, 1, 4}}, "x");
    const Tensor y = attention_by_rows(x, x, x, Precision::DEFAULT);
    return emit(graph, std::vector{y}).size();
  };
  EXPECT_LT(nodes(1 << 18), 2 * nodes(1 << 14));
}

}  // namespace
}  // namespace kinema::nn
