#pragma once

#include "kinema/graph/ops.h"

namespace kinema::nn {

/// norm(x) (1 + scale) + shift with a layer norm without parameters, all in f32, rounded once to
/// x's dtype. scale and shift broadcast over x [b, s, d]. arXiv:2212.09748, adaLN.
Tensor modulated_norm(Tensor x, Tensor shift, Tensor scale, double eps);

/// x + y gate in f32, rounded once to x's dtype: gates are small, and products rounded to bf16
/// first would lose bits of the sum.
Tensor add_gated(Tensor x, Tensor y, Tensor gate);

}  // namespace kinema::nn
