#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace kinema {

/// Minimum cut between a source and a sink of a directed graph with capacities, by shortest
/// augmenting paths (Edmonds and Karp, J. ACM 19, 1972).
class MinCut {
 public:
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

  explicit MinCut(size_t nodes) : node_edges_(nodes) {}

  size_t add_node();
  void add_edge(size_t from, size_t to, int64_t capacity);
  /// True for the nodes on the sink's side of the minimum cut nearest to the sink.
  std::vector<bool> sink_side(size_t source, size_t sink);

 private:
  struct Edge {
    size_t to;
    int64_t left;  // unused capacity
  };
  bool augment(size_t source, size_t sink);

  std::vector<Edge> edges_;  // an edge and its reverse are adjacent
  std::vector<std::vector<size_t>> node_edges_;
};

}  // namespace kinema
