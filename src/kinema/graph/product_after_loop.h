#pragma once

#include <optional>
#include <vector>

#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/tensor.h"

namespace kinema {

/// The sum over a loop's steps of a product of two values of each step, as one product after the
/// loop that contracts the steps too. Gradients of recurrent weights are such sums. The loop then
/// adds nothing to a matrix in every step.
class ProductAfterLoop {
 public:
  /// From a step's part of the sum: a dot_general whose axes may be in another order or joined.
  /// None for other values, and where keeping both factors of all steps would move more bytes than
  /// adding the product to its sum.
  static std::optional<ProductAfterLoop> of(Tensor step);

  /// The factors, where the step's part is.
  Tensor left() const { return left_; }
  Tensor right() const { return right_; }
  /// The sum, in the shape of a step's part, from the factors of all steps [steps, ...]. Half types
  /// are summed and returned in F32.
  Tensor operator()(Tensor lefts, Tensor rights) const;

 private:
  Tensor left_;
  Tensor right_;
  DotAttrs attrs_;
  std::vector<const Node*> after_;  // transposes and reshapes of the product, in their order
};

}  // namespace kinema
