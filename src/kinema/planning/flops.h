#pragma once

#include <span>

#include "kinema/graph/graph.h"

namespace kinema::planning {

/// Operations of matrix products and convolutions, two for each multiplication with its sum, by
/// their operands: chips multiply those of one byte faster.
struct MatrixFlops {
  double wide = 0;
  double int8 = 0;
  double float8 = 0;

  double total() const { return wide + int8 + float8; }
};

/// The operations that `outputs` need, on all devices together. A loop's body counts once a step;
/// what a backward pass computes again counts again. Zeros of a convolution's padding count.
MatrixFlops matrix_flops(const Graph& graph, std::span<const Tensor> outputs);

}  // namespace kinema::planning
