#include "kinema/graph/min_cut.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace kinema {

size_t MinCut::add_node() {
  node_edges_.emplace_back();
  return node_edges_.size() - 1;
}

void MinCut::add_edge(size_t from, size_t to, int64_t capacity) {
  node_edges_[from].push_back(edges_.size());
  edges_.push_back({to, capacity});
  node_edges_[to].push_back(edges_.size());
  edges_.push_back({from, 0});
}

bool MinCut::augment(size_t source, size_t sink) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<size_t> arrived(node_edges_.size(), kNone);
  std::deque<size_t> queue{source};
  while (!queue.empty() && arrived[sink] == kNone) {
    const size_t node = queue.front();
    queue.pop_front();
    for (const size_t e : node_edges_[node]) {
      const size_t to = edges_[e].to;
      if (edges_[e].left > 0 && to != source && arrived[to] == kNone) {
        arrived[to] = e;
        queue.push_back(to);
      }
    }
  }
  if (arrived[sink] == kNone) {
    return false;
  }
  int64_t flow = kInfinite;
  for (size_t node = sink; node != source; node = edges_[arrived[node] ^ 1].to) {
    flow = std::min(flow, edges_[arrived[node]].left);
  }
  for (size_t node = sink; node != source; node = edges_[arrived[node] ^ 1].to) {
    edges_[arrived[node]].left -= flow;
    edges_[arrived[node] ^ 1].left += flow;
  }
  return flow < kInfinite;  // a path of unlimited capacity: no cut exists
}

std::vector<bool> MinCut::sink_side(size_t source, size_t sink) {
  while (augment(source, sink)) {
  }
  std::vector<bool> side(node_edges_.size(), false);
  side[sink] = true;
  std::deque<size_t> queue{sink};
  while (!queue.empty()) {
    const size_t node = queue.front();
    queue.pop_front();
    for (const size_t e : node_edges_[node]) {
      // The reverse of e leads to `node`.
      if (edges_[e ^ 1].left > 0 && !side[edges_[e].to]) {
        side[edges_[e].to] = true;
        queue.push_back(edges_[e].to);
      }
    }
  }
  return side;
}

}  // namespace kinema
