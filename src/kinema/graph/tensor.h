#pragma once

#include <cstdint>

#include "kinema/core/shape.h"

namespace kinema {

class Graph;
struct Node;

/// A handle to one result of one node: two words, passed by value, without ownership.
///
/// Valid as long as its Graph exists. A default-constructed Tensor is empty (`!tensor`).
class Tensor {
 public:
  Tensor() = default;
  Tensor(Node* node, int64_t result) : node_(node), result_(result) {}

  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Tensor&) const = default;

  Node& node() const { return *node_; }
  /// Index among the node's results; 0 for all but loops and calls.
  int64_t result() const { return result_; }
  Graph& graph() const;
  const Shape& shape() const;
  DType dtype() const { return shape().dtype; }
  int64_t rank() const { return shape().rank(); }
  /// Size along an axis; negative axes count from the end.
  int64_t dim(int64_t axis) const {
    return shape().dims[static_cast<size_t>(resolve_axis(Axis(axis), shape(), "dim"))];
  }

 private:
  Node* node_ = nullptr;
  int64_t result_ = 0;
};

}  // namespace kinema
