#include "kinema/graph/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "graph/evaluate.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/scan.h"

namespace kinema {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class WatchTest : public pjrt::CpuTest {
 protected:
  /// What is found in a graph whose only input is `values`; empty if the outputs are finite.
  std::string found(std::vector<float> values, Tensor output) {
    const Watch watch(graph_, std::vector{output});
    const HostProgram program(graph_, std::vector{output, watch.flags()});
    const Dims dims{static_cast<int64_t>(values.size())};
    const std::vector<HostArray> results =
        program(std::vector<HostArray>{HostArray::f32(dims, values)});
    const std::optional<NonFinite> first = watch.first(results[1].as<float>());
    return first ? to_text(*first) : "";
  }
  Tensor input(int64_t size) { return graph_.input({DType::F32, {size}}, "x"); }

  Graph graph_;
};

TEST_F(WatchTest, NamesTheFirstOperationWithItsPath) {
  const Tensor x = input(2);
  Tensor y;
  {
    const Scope scope(graph_, "blocks");
    const Scope inner(graph_, "ffn");
    y = log(x);
  }
  EXPECT_EQ(found({-1, 1}, exp(y) * 2.0), "blocks/ffn/log, whose f32[2] is not finite");
}

TEST_F(WatchTest, SaysNothingWhereOutputsAreFinite) {
  const Tensor x = input(2);
  EXPECT_EQ(found({1, 2}, exp(x)), "");
}

TEST_F(WatchTest, NamesAnInputThatIsNotFiniteItself) {
  const Tensor x = input(2);
  EXPECT_EQ(found({kInf, 2}, exp(x) + 1.0), "x, whose f32[2] is not finite");
}

TEST_F(WatchTest, LetsInfinitiesOfMasksPass) {
  const Tensor x = input(3);
  const Tensor masked =
      select(compare(x, Comparison::GT, 1.0), x,
             constant(graph_, -std::numeric_limits<double>::infinity(), {DType::F32, {3}}));
  const Tensor y = softmax(masked);  // the masked one is 0
  EXPECT_EQ(found({0, 2, 3}, log(y - 1.0)), "log, whose f32[3] is not finite");
}

TEST_F(WatchTest, LooksIntoTheStepsOfLoops) {
  const Tensor x = input(1);
  const Scope scope(graph_, "blocks");
  const ScanResult result =
      scan({x}, {iota(graph_, {DType::F32, {4}}, Axis(0))}, {.length = 4},
           [](std::span<const Tensor> carry, std::span<const Tensor> xs) {
             const Scope inner(carry[0].graph(), "attn1");
             // 1 / (2 - step) is infinite in step 2.
             return ScanResult{.carry = {carry[0] + reshape(1.0 / (2.0 - xs[0]), {1})}};
           });
  EXPECT_EQ(found({1}, result.carry[0]), "blocks.2/attn1/divide, whose f32[] is not finite");
}

TEST_F(WatchTest, LooksIntoBackwardPassesOfCheckpointedBlocks) {
  const Tensor x = input(2);
  Tensor loss;
  {
    const Scope scope(graph_, "blocks.0");
    loss = sum(checkpoint({x}, {.kind = RematPolicy::Kind::FULL}, [](std::span<const Tensor> in) {
      return std::vector<Tensor>{sqrt(in[0]) * 3.0};
    })[0]);
  }
  // The value is 0, the slope infinite.
  EXPECT_THAT(found({0, 1}, gradients(loss, std::vector{x})[0]),
              testing::AllOf(testing::HasSubstr("blocks.0/"), testing::HasSubstr("is not finite")));
}

}  // namespace
}  // namespace kinema
