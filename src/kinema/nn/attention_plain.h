#pragma once

#include "kinema/graph/ops.h"
#include "kinema/nn/quantized.h"

namespace kinema::nn {

/// softmax(scale q k^T + bias) v with the scores of all pairs at once, [b, n, s, t]; operands as
/// for `attention`, bias empty or as there.
Tensor dot_product(Tensor q, Tensor k, Tensor v, Tensor bias, Precision precision, double scale);

/// The same with both products quantized: scores before the scale, and probabilities, rounded to
/// the dtype of v.
Tensor quantized_dot_product(Tensor q, Tensor k, Tensor v, Tensor bias, Precision precision,
                             double scale, const QuantizedProduct& how);

}  // namespace kinema::nn
