#pragma once

#include "graph/ops.h"
#include "nn/params.h"

namespace kinema::nn {

/// (x - mean) / sqrt(variance + eps) over the last axis, computed and returned in f32 (f64 for
/// f64).
Tensor layer_norm(Tensor x, double eps);

/// x / sqrt(mean(x^2) + eps) * weight over the last axis, computed and returned in f32 (f64 for
/// f64).
Tensor rms_norm(Tensor x, Tensor weight, double eps);

/// Layer norm with `weight` [d] and `bias` [d].
class LayerNorm {
 public:
  LayerNorm(const Params& params, int64_t dim, double eps);

  /// [..., d] -> [..., d] in x's dtype.
  Tensor operator()(Tensor x) const;

 private:
  double eps_;
  Tensor weight_;
  Tensor bias_;
};

/// RMS norm with `weight` [d].
class RmsNorm {
 public:
  RmsNorm(const Params& params, int64_t dim, double eps);

  /// [..., d] -> [..., d] in f32: what follows (rotation, rounding) decides the dtype.
  Tensor operator()(Tensor x) const;

 private:
  double eps_;
  Tensor weight_;
};

}  // namespace kinema::nn
