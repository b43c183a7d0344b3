#pragma once

#include "kinema/graph/ops.h"
#include "kinema/nn/quantized.h"

namespace kinema::nn {

/// softmax(scale q k^T + bias) v with the scores of all pairs at once, [b, n, s, t]; operands and
/// bias as in `attention`.
Tensor dot_product(Tensor q, Tensor k, Tensor v, Tensor bias, Precision precision, double scale);

/// The same with both products quantized: the scores before scaling, and the probabilities rounded
/// to v's dtype.
Tensor quantized_dot_product(Tensor q, Tensor k, Tensor v, Tensor bias, Precision precision,
                             double scale, const QuantizedProduct& how);

}  // namespace kinema::nn
