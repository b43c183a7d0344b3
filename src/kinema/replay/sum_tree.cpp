#include "kinema/replay/sum_tree.h"

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema::replay {

double SumTree::at(size_t place) const { return place < leaves_ ? nodes_[leaves_ + place] : 0.0; }

void SumTree::set(size_t place, double value) {
  if (place >= leaves_) {
    size_t more = leaves_;
    while (place >= more) {
      more *= 2;
    }
    std::vector<double> nodes(2 * more, 0.0);
    std::copy(nodes_.begin() + static_cast<ptrdiff_t>(leaves_), nodes_.end(),
              nodes.begin() + static_cast<ptrdiff_t>(more));
    for (size_t i = more - 1; i > 0; --i) {
      nodes[i] = nodes[2 * i] + nodes[2 * i + 1];
    }
    nodes_ = std::move(nodes);
    leaves_ = more;
  }
  size_t node = leaves_ + place;
  nodes_[node] = value;
  for (node /= 2; node > 0; node /= 2) {
    // Not by adding the difference: rounding would pile up over millions of changes.
    nodes_[node] = nodes_[2 * node] + nodes_[2 * node + 1];
  }
}

size_t SumTree::find(double part) const {
  check(sum() > 0.0, "[replay] all priorities are 0");
  size_t node = 1;
  while (node < leaves_) {
    const double left = nodes_[2 * node];
    // Rounding may leave a part beyond the last number: never select an empty leaf.
    const bool goes_left = part < left || nodes_[2 * node + 1] == 0.0;
    part -= goes_left ? 0.0 : left;
    node = 2 * node + (goes_left ? 0 : 1);
  }
  return node - leaves_;
}

}  // namespace kinema::replay
