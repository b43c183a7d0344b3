#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kinema::replay {

/// Numbers that are not negative, by place, with their sum: setting one and finding where a part of
/// the sum is reached take a time that grows with the logarithm of their count.
class SumTree {
 public:
  /// The number at a place; places not set are 0.
  double at(size_t place) const;
  void set(size_t place, double value);
  double sum() const { return nodes_[1]; }
  /// The place where the running sum passes `part` of 0 .. sum. Some number must not be 0.
  size_t find(double part) const;

 private:
  size_t leaves_ = 1;
  std::vector<double> nodes_ = std::vector<double>(2, 0.0);  // node i has children 2 i and 2 i + 1
};

}  // namespace kinema::replay
