#pragma once

#include "kinema/graph/ops.h"

namespace kinema::nn {

/// cos(t w_i) for i < dim / 2, then sin(t w_i), with w_i = 10000^(-2 i / dim): t [...], any numeric
/// dtype -> f32 [..., dim]. Throws an Error when dim is odd.
Tensor sinusoid(Tensor t, int64_t dim);

}  // namespace kinema::nn
