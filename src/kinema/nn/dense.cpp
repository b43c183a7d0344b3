#include "kinema/nn/dense.h"

#include <cmath>

#include "kinema/core/error.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"

namespace kinema::nn {
namespace {

/// The dtype that products of x are summed in.
DType sums_of(Tensor x) { return widened(x).dtype(); }

}  // namespace

Tensor biased(Tensor sums, Tensor bias, DType dtype) { return as(sums, dtype) + as(bias, dtype); }

Init truncated_normal_in(const Dims& kernel, double scale) {
  if (scale == 0.0) {
    return Init::zeros();
  }
  check(kernel.size() >= 2, "[init] a kernel is {} but must have two axes", to_string(kernel));
  // The inputs of all blocks count, and those of all pixels of a convolution.
  double fan_in = 1.0;
  for (size_t i = 0; i + 1 < kernel.size(); ++i) {
    fan_in *= static_cast<double>(kernel[i]);
  }
  // One over the standard deviation of a standard normal distribution truncated to [-2, 2].
  constexpr double kUncut = 1.1368;
  return {.kind = Init::Kind::TRUNCATED_NORMAL, .scale = scale * kUncut / std::sqrt(fan_in)};
}

Dense::Dense(const Params& params, int64_t in, int64_t out, double scale)
    : kernel_(params.weight("kernel", {in, out}, {"", ""}, truncated_normal_in({in, out}, scale))),
      bias_(params.weight("bias", {out}, {""}, Init::zeros())) {}

Tensor Dense::operator()(Tensor x, Precision precision) const {
  return biased(partial_product(x, kernel_, precision), bias_, x.dtype());
}

Tensor Dense::rows(int64_t first, int64_t count) const {
  return slice(kernel_, Axis(0), first, count);
}

Tensor partial_product(Tensor x, Tensor rows, Precision precision) {
  return dot_general(x, as(rows, x.dtype()), {.lhs_contract = {x.rank() - 1}, .rhs_contract = {0}},
                     precision, sums_of(x));
}

BlockDense::BlockDense(const Params& params, int64_t in, int64_t out, int64_t blocks,
                       double scale) {
  check(blocks > 0 && in % blocks == 0 && out % blocks == 0,
        "[dense] {} inputs and {} outputs are not multiples of {} blocks", in, out, blocks);
  const Dims kernel{blocks, in / blocks, out / blocks};
  kernel_ = params.weight("kernel", kernel, {"", "", ""}, truncated_normal_in(kernel, scale));
  bias_ = params.weight("bias", {out}, {""}, Init::zeros());
}

Tensor BlockDense::operator()(Tensor x, Precision precision) const {
  return biased(partial_block_product(x, kernel_, precision), bias_, x.dtype());
}

Tensor BlockDense::rows(int64_t first, int64_t count) const {
  return slice(kernel_, Axis(1), first, count);
}

Tensor BlockDense::shared_rows(int64_t first, int64_t count) const {
  return reshape(transpose(rows(first, count), {1, 0, 2}), {count, -1});
}

Tensor partial_block_product(Tensor x, Tensor rows, Precision precision) {
  Dims parts = x.shape().dims;
  const int64_t features = parts.back();
  check(features == rows.dim(0) * rows.dim(1), "[dense] x is {} but its last size must be {}",
        to_string(x.shape()), rows.dim(0) * rows.dim(1));
  parts.pop_back();
  int64_t count = 1;
  for (const int64_t size : parts) {
    count *= size;
  }
  const Tensor by_block = reshape(x, {count, rows.dim(0), rows.dim(1)});
  const Tensor y = dot_general(
      by_block, as(rows, x.dtype()),
      {.lhs_contract = {2}, .rhs_contract = {1}, .lhs_batch = {1}, .rhs_batch = {0}}, precision,
      sums_of(x));  // [blocks, count, out / blocks]
  parts.push_back(-1);
  return reshape(transpose(y, {1, 0, 2}), parts);
}

}  // namespace kinema::nn
