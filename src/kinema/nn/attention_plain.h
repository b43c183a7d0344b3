#pragma once

#include "kinema/graph/ops.h"

namespace kinema::nn {

/// softmax(scale q k^T + bias) v with the scores of all pairs at once, [b, n, s, t]; operands as
/// for `attention`, bias empty or as there.
Tensor dot_product(Tensor q, Tensor k, Tensor v, Tensor bias, Precision precision, double scale);

}  // namespace kinema::nn
