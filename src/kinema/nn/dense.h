#pragma once

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

/// Layers with kernels as JAX programs store them, inputs before outputs: `kernel` and `bias`.
namespace kinema::nn {

/// A normal distribution cut off at two standard deviations, scaled so that what is left has the
/// variance (scale / sqrt(fan_in))^2, where fan_in is the kernel's size without its last axis: a
/// kernel of blocks [blocks, in, out] has the fan blocks * in. `scale` 0 gives zeros.
Init truncated_normal_in(const Dims& kernel, double scale = 1.0);

/// y = x W + b over the last axis: `kernel` [in, out], `bias` [out].
class Dense {
 public:
  /// `scale`: of the initial kernel, see truncated_normal_in.
  Dense(const Params& params, int64_t in, int64_t out, double scale = 1.0);

  /// x [..., in] -> [..., out] in x's dtype, which kernel and bias are rounded to. Products are
  /// summed in F32 at least, and rounded before the bias is added.
  Tensor operator()(Tensor x, Precision precision) const;

  /// Rows `first` .. `first + count - 1` of the kernel: where inputs lie end to end, those of one
  /// of them.
  Tensor rows(int64_t first, int64_t count) const;
  Tensor bias() const { return bias_; }

 private:
  Tensor kernel_;
  Tensor bias_;
};

/// x [..., in] times rows [in, out] of a kernel, which are rounded to x's dtype -> [..., out] in
/// F32 at least: a part of a sum, which is rounded when it is complete.
Tensor partial_product(Tensor x, Tensor rows, Precision precision);

/// Sums of products, rounded to a dtype, plus bias [out], rounded to it: what Dense gives of
/// partial products of all its inputs.
Tensor biased(Tensor sums, Tensor bias, DType dtype);

/// A linear layer whose input and output are so many equal parts, part i of the output being made
/// of part i of the input: `kernel` [blocks, in / blocks, out / blocks], `bias` [out].
class BlockDense {
 public:
  BlockDense(const Params& params, int64_t in, int64_t out, int64_t blocks, double scale = 1.0);

  /// x [..., in] -> [..., out] in x's dtype; as Dense.
  Tensor operator()(Tensor x, Precision precision) const;

  /// Rows of every block's kernel: [blocks, count, out / blocks].
  Tensor rows(int64_t first, int64_t count) const;
  /// The same for an input that all blocks share: [count, out].
  Tensor shared_rows(int64_t first, int64_t count) const;
  Tensor bias() const { return bias_; }

 private:
  Tensor kernel_;
  Tensor bias_;
};

/// x [..., in] in parts, times rows [blocks, in / blocks, out / blocks] -> [..., out] in F32 at
/// least.
Tensor partial_block_product(Tensor x, Tensor rows, Precision precision);

}  // namespace kinema::nn
