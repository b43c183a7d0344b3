#pragma once

#include <string_view>

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// x in the dtype in which norms, rotations and modulation are computed: f32, or f64 for f64.
/// Squares of bf16 values would lose the mean's low bits.
Tensor widened(Tensor x);

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

  /// [..., d] -> [..., d] in f32: the caller (rotation, rounding) decides the dtype. `scale`
  /// multiplies the weight, which costs nothing.
  Tensor operator()(Tensor x, double scale = 1.0) const;

  /// The weight times `scale`, in `dtype`.
  Tensor weight(DType dtype, double scale) const;
  double epsilon() const { return eps_; }

 private:
  double eps_;
  Tensor weight_;
};

/// RMS or layer norm with `scale` [d], and `shift` [d] of a layer norm, as JAX programs name them.
class ScaleNorm {
 public:
  enum class Kind : uint8_t { NONE, RMS, LAYER };
  struct How {
    Kind kind = Kind::RMS;
    double epsilon = 1e-4;
    bool operator==(const How&) const = default;
  };
  /// `rms`, `layer` or `none`; `rms1em6` has the epsilon 1e-6. Throws an Error for another name.
  static How from_string(std::string_view name);

  ScaleNorm(const Params& params, int64_t dim, const How& how);

  /// [..., d] -> [..., d] in x's dtype; computed in f32 (f64 for f64).
  Tensor operator()(Tensor x) const;

 private:
  How how_;
  Tensor scale_;
  Tensor shift_;
};

}  // namespace kinema::nn
