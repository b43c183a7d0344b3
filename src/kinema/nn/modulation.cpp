#include "kinema/nn/modulation.h"

#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"

namespace kinema::nn {

Tensor modulated_norm(Tensor x, Tensor shift, Tensor scale, double eps) {
  const Tensor y = layer_norm(widened(x), eps);
  return as(y * (1.0 + as(scale, y.dtype())) + as(shift, y.dtype()), x.dtype());
}

Tensor add_gated(Tensor x, Tensor y, Tensor gate) {
  const DType wide = widened(gate).dtype();
  return as(as(x, wide) + as(y, wide) * as(gate, wide), x.dtype());
}

}  // namespace kinema::nn
