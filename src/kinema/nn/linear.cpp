#include "kinema/nn/linear.h"

namespace kinema::nn {

Tensor as(Tensor x, DType dtype) { return x.dtype() == dtype ? x : convert(x, dtype); }

namespace {

/// x [..., in], w [out, in] -> [..., out].
Tensor product(Tensor x, Tensor w, Precision precision, DType sums) {
  return dot_general(x, as(w, x.dtype()), {.lhs_contract = {x.rank() - 1}, .rhs_contract = {1}},
                     precision, sums);
}

/// x [..., in], w [out, in], of codes with a scale or of floats -> [..., out] in x's dtype.
Tensor quantized_product(Tensor x, Tensor w, const std::optional<Tensor>& scale,
                         const QuantizedProduct& how, Precision precision) {
  const DType dtype = x.dtype();
  if (!scale) {
    return quantized_linear(x, as(w, dtype), how, precision);
  }
  if (stored_codes_fit(w.dtype(), how)) {
    return quantized_linear_of_codes(x, w, as(*scale, dtype), how, precision);
  }
  const Tensor wide = as(as(w, DType::F32) * expand_dims(*scale, Axis(1)), dtype);
  return quantized_linear(x, wide, how, precision);
}

}  // namespace

Tensor linear(Tensor x, Tensor w, Tensor b, Precision precision,
              const std::optional<LinearAdapter>& adapter,
              const std::optional<QuantizedProduct>& quantized,
              const std::optional<Tensor>& scale) {
  const DType dtype = x.dtype();
  // Half types sum in f32 and round once, after the bias, as a fused GEMM does.
  const DType sums = dtype == DType::BF16 || dtype == DType::F16 ? DType::F32 : dtype;
  Tensor y;
  if (quantized) {
    y = quantized_product(x, w, scale, *quantized, precision);
    if (!adapter) {
      return b ? y + as(b, dtype) : y;
    }
    y = as(y, sums);
  } else {
    y = product(x, w, precision, sums);
    // Codes are exact in every float dtype of products: the scale is applied to the sums.
    y = scale ? y * as(*scale, sums) : y;
  }
  if (adapter) {
    y = (*adapter)(y, x, w, scale, precision);
  }
  return as(b ? y + as(b, sums) : y, dtype);
}

Linear::Linear(const Params& params, int64_t in, int64_t out, const LinearOptions& options)
    : weight_(
          params.weight("weight", {out, in}, {options.out_axis, options.in_axis}, options.init)),
      scale_(params.stored_scale(out, options.out_axis)),
      bias_(options.bias ? params.weight("bias", {out}, {options.bias_axis}, options.bias_init)
                         : Tensor()),
      adapter_(LinearAdapter::open(params, in, out, options.in_axis, options.out_axis)),
      quantized_(params.quantized()) {}

Tensor Linear::operator()(Tensor x, Precision precision) const {
  return linear(x, weight_, bias_, precision, adapter_, quantized_, scale_);
}

}  // namespace kinema::nn
