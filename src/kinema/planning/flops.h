#pragma once

#include <span>

#include "kinema/graph/graph.h"

namespace kinema::planning {

/// Floating-point operations of the matrix products and convolutions that `outputs` need, on all
/// devices together: two for each multiplication with its sum. A loop's body counts once a step;
/// what a backward pass computes again counts again. Zeros of a convolution's padding count.
double matrix_flops(const Graph& graph, std::span<const Tensor> outputs);

}  // namespace kinema::planning
