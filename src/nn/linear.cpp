#include "nn/linear.h"

namespace kinema::nn {

Tensor as(Tensor x, DType dtype) { return x.dtype() == dtype ? x : convert(x, dtype); }

Tensor linear(Tensor x, Tensor w, Tensor b, Precision precision) {
  const DType dtype = x.dtype();
  // Half types sum in f32 and round once, after the bias, as a fused GEMM does.
  const DType sums = dtype == DType::BF16 || dtype == DType::F16 ? DType::F32 : dtype;
  const Tensor y = dot_general(
      x, as(w, dtype), {.lhs_contract = {x.rank() - 1}, .rhs_contract = {1}}, precision, sums);
  return as(y + as(b, sums), dtype);
}

Linear::Linear(const Params& params, int64_t in, int64_t out, const LinearOptions& options)
    : weight_(
          params.weight("weight", {out, in}, {options.out_axis, options.in_axis}, options.init)),
      bias_(params.weight("bias", {out}, {options.bias_axis}, Init::zeros())) {}

Tensor Linear::operator()(Tensor x, Precision precision) const {
  return linear(x, weight_, bias_, precision);
}

}  // namespace kinema::nn
