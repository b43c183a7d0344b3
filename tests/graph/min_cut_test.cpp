#include "kinema/graph/min_cut.h"

#include <gtest/gtest.h>

namespace kinema {
namespace {

TEST(MinCut, CutsWhereItIsCheapest) {
  MinCut network(4);  // source 0, sink 3
  network.add_edge(0, 1, 10);
  network.add_edge(1, 2, 3);
  network.add_edge(2, 3, 10);

  EXPECT_EQ(network.sink_side(0, 3), (std::vector<bool>{false, false, true, true}));
}

TEST(MinCut, PrefersTheCutNearestTheSink) {
  MinCut network(4);
  network.add_edge(0, 1, 3);
  network.add_edge(1, 2, 3);
  network.add_edge(2, 3, 3);

  EXPECT_EQ(network.sink_side(0, 3), (std::vector<bool>{false, false, false, true}));
}

// Two paths of capacity 4 and 5 that share an edge of 6 at the end: cutting the shared edge is
// cheaper than cutting both.
TEST(MinCut, WeighsOneSharedEdgeAgainstTwo) {
  MinCut network(5);
  network.add_edge(0, 1, 4);
  network.add_edge(0, 2, 5);
  network.add_edge(1, 3, MinCut::kInfinite);
  network.add_edge(2, 3, MinCut::kInfinite);
  network.add_edge(3, 4, 6);

  EXPECT_EQ(network.sink_side(0, 4), (std::vector<bool>{false, false, false, false, true}));
}

TEST(MinCut, SendsFlowBackWhereTheFirstPathWasWrong) {
  MinCut network(6);
  network.add_edge(0, 1, 1);
  network.add_edge(0, 2, 1);
  network.add_edge(1, 3, 1);
  network.add_edge(1, 4, 1);
  network.add_edge(2, 3, 1);
  network.add_edge(3, 5, 1);
  network.add_edge(4, 5, 1);

  // Both units reach the sink only if node 1 sends its unit through 4.
  EXPECT_EQ(network.sink_side(0, 5), (std::vector<bool>{false, false, false, false, false, true}));
}

}  // namespace
}  // namespace kinema
