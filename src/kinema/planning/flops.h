#pragma once

#include <span>

#include "kinema/graph/graph.h"

namespace kinema::planning {

/// FLOPs of matrix products and convolutions, two per multiply-add, by the operands' dtype, because
/// chips are faster with one-byte operands.
struct MatrixFlops {
  double wide = 0;
  double int8 = 0;
  double float8 = 0;

  double total() const { return wide + int8 + float8; }
};

/// The FLOPs on which `outputs` depend, on all devices together. A loop's body counts once per
/// step; rematerialization counts again. Zeros of a convolution's padding count.
MatrixFlops matrix_flops(const Graph& graph, std::span<const Tensor> outputs);

}  // namespace kinema::planning
