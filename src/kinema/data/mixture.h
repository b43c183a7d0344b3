#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kinema::data {

/// An endless order in which several sets take turns by their weights: a pure function of seed and
/// position.
///
/// The order consists of cycles, each of which has a fixed number of places of every set (weights
/// are exact, or rounded to thousandths of their sum) in an order of its own. So after each cycle
/// the proportions are those of the weights, and the places of a set are counted without a gap.
class Mixture {
 public:
  /// Throws an Error for a weight that is not positive, or below a thousandth of their sum.
  /// `shuffle`: false keeps the places of a set together in each cycle.
  Mixture(const std::vector<double>& weights, uint64_t seed, bool shuffle);

  struct Place {
    size_t set = 0;
    int64_t index = 0;  // in the order of the set
  };
  Place at(int64_t position) const;
  /// Places of a cycle, and of each set in it.
  int64_t cycle() const { return ends_.back(); }
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  std::vector<int64_t> counts_;
  std::vector<int64_t> ends_;
  uint64_t seed_;
  bool shuffle_;
};

}  // namespace kinema::data
