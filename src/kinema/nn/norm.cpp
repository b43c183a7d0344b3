#include "kinema/nn/norm.h"

#include "kinema/nn/linear.h"

namespace kinema::nn {

Tensor widened(Tensor x) { return as(x, x.dtype() == DType::F64 ? DType::F64 : DType::F32); }

LayerNorm::LayerNorm(const Params& params, int64_t dim, double eps)
    : eps_(eps),
      weight_(params.weight("weight", {dim}, {""}, Init::ones())),
      bias_(params.weight("bias", {dim}, {""}, Init::zeros())) {}

Tensor LayerNorm::operator()(Tensor x) const {
  const Tensor y = layer_norm(widened(x), eps_);
  return as(y * as(weight_, y.dtype()) + as(bias_, y.dtype()), x.dtype());
}

RmsNorm::RmsNorm(const Params& params, int64_t dim, double eps)
    : eps_(eps), weight_(params.weight("weight", {dim}, {"norm"}, Init::ones())) {}

Tensor RmsNorm::operator()(Tensor x, double scale) const {
  const Tensor y = rms_norm(widened(x), eps_);
  return y * weight(y.dtype(), scale);
}

Tensor RmsNorm::weight(DType dtype, double scale) const {
  const Tensor weight = as(weight_, dtype);
  return scale == 1.0 ? weight : weight * scale;
}

}  // namespace kinema::nn
