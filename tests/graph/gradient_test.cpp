#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "graph/gradient_cases.h"
#include "kinema/graph/ops/all_ops.h"

namespace kinema {
namespace {

using pjrt::CpuTest;

class Gradients : public CpuTest {};

TEST_F(Gradients, OfElementwiseOpsMatchFiniteDifferences) {
  expect_gradients_match(elementwise_cases());
}

TEST_F(Gradients, OfShapeOpsMatchFiniteDifferences) { expect_gradients_match(shape_cases()); }

TEST_F(Gradients, OfReductionsMatchFiniteDifferences) { expect_gradients_match(reduction_cases()); }

TEST_F(Gradients, OfProductsMatchFiniteDifferences) { expect_gradients_match(product_cases()); }

TEST_F(Gradients, OfAnnotationsMatchFiniteDifferences) {
  expect_gradients_match(annotation_cases());
}

TEST_F(Gradients, OfComposedFunctionsMatchFiniteDifferences) {
  expect_gradients_match(composed_cases());
}

TEST_F(Gradients, OfGradientsMatchFiniteDifferences) {
  expect_gradients_match(second_order_cases());
}

// Names of the ops that the cases differentiate through: those between input and result.
std::set<std::string> differentiated_ops() {
  std::set<std::string> names;
  for (const auto& family : {elementwise_cases(), shape_cases(), reduction_cases(), product_cases(),
                             annotation_cases(), composed_cases(), second_order_cases()}) {
    for (const GradientCase& one : family) {
      Graph graph;
      std::vector<Tensor> x;
      for (const HostArray& array : one.inputs) {
        x.push_back(graph.input(array.shape));
      }
      one.function(x);
      for (const Node& node : graph.nodes()) {
        names.insert(node.op->name);
      }
    }
  }
  return names;
}

TEST(AllOps, EveryOpHasAGradientCase) {
  const std::set<std::string> without = {
      "splat",   "constant",  "iota",    "sign", "floor",      "round_even",
      "and",     "or",        "xor",     "not",  "shift_left", "shift_right_logical",
      "compare", "is_finite", "bitcast", "all",  "any",        "stop_gradient",
      "argsort"};
  const std::set<std::string> covered = differentiated_ops();
  for (const Op* op : all_ops()) {
    if (std::ranges::find(collective_ops(), op) != collective_ops().end()) {
      continue;  // tested in manual_test
    }
    SCOPED_TRACE(op->name);
    EXPECT_EQ(op->gradient.exists(), !without.contains(op->name));
    EXPECT_TRUE(!op->gradient.exists() || covered.contains(op->name));
  }
}

}  // namespace
}  // namespace kinema
