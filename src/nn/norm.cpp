#include "nn/norm.h"

#include "nn/linear.h"

namespace kinema::nn {
namespace {

/// Norms are computed in f32: squares of bf16 values lose the mean's low bits otherwise.
DType norm_dtype(Tensor x) { return x.dtype() == DType::F64 ? DType::F64 : DType::F32; }

}  // namespace

Tensor layer_norm(Tensor x, double eps) {
  x = as(x, norm_dtype(x));
  // Two passes: E[x^2] - E[x]^2 cancels where the mean is large.
  const Tensor centred = x - mean(x, {-1}, true);
  return centred * rsqrt(mean(square(centred), {-1}, true) + eps);
}

Tensor rms_norm(Tensor x, Tensor weight, double eps) {
  x = as(x, norm_dtype(x));
  return x * rsqrt(mean(square(x), {-1}, true) + eps) * as(weight, x.dtype());
}

LayerNorm::LayerNorm(const Params& params, int64_t dim, double eps)
    : eps_(eps),
      weight_(params.weight("weight", {dim}, {""}, Init::ones())),
      bias_(params.weight("bias", {dim}, {""}, Init::zeros())) {}

Tensor LayerNorm::operator()(Tensor x) const {
  const Tensor y = layer_norm(x, eps_);
  return as(y * as(weight_, y.dtype()) + as(bias_, y.dtype()), x.dtype());
}

RmsNorm::RmsNorm(const Params& params, int64_t dim, double eps)
    : eps_(eps), weight_(params.weight("weight", {dim}, {"norm"}, Init::ones())) {}

Tensor RmsNorm::operator()(Tensor x) const { return rms_norm(x, weight_, eps_); }

}  // namespace kinema::nn
