#pragma once

#include <optional>
#include <string>

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// x as `dtype`; x itself when it already is.
Tensor as(Tensor x, DType dtype);

/// Names of the logical axes of a linear layer's two sides, and its initialisation.
struct LinearOptions {
  std::string out_axis = {};
  std::string in_axis = {};
  std::string bias_axis = {};
  Init init = Init::xavier();
  bool bias = true;
  Init bias_init = Init::zeros();
};

/// What adapters add to a weight [out, in] without being merged into it: up diag(scale) down
/// (arXiv:2106.09685).
struct LowRank {
  Tensor down;           // [r, in]
  Tensor up;             // [out, r]
  Tensor scale;          // [r]: several adapters lie end to end, each with its own
  Dropout dropout = {};  // of x, while the factors are trained
  std::string place = {};

  /// x [..., in] -> [..., out] in `sums`, the dtype that products are summed in.
  Tensor operator()(Tensor x, Precision precision, DType sums) const;
};

/// y = x W^T + b over the last axis: `weight` [out, in], `bias` [out] unless the options have none,
/// as torch stores them. With Params::low_rank, W + up diag(scale) down stands for W.
class Linear {
 public:
  Linear(const Params& params, int64_t in, int64_t out, const LinearOptions& options);

  /// x [..., in] -> [..., out] in x's dtype; the weight is rounded to it first.
  Tensor operator()(Tensor x, Precision precision) const;

 private:
  Tensor weight_;
  std::optional<Tensor> scale_;  // of a weight that is stored as codes
  Tensor bias_;                  // or empty
  std::optional<LowRank> low_rank_;
  std::optional<QuantizedProduct> quantized_;
};

/// x [..., in] times w [out, in] transposed plus b [out], where there is one; sums and the bias in
/// f32 at least, rounded once to x's dtype. Quantized, the product is rounded to x's dtype before
/// the bias is added; the addition of low rank is not quantized. With `scale` [out], w are codes
/// (int8, float8): they are widened for the product, which is scaled, or multiply as they are where
/// the product is quantized to the same codes.
Tensor linear(Tensor x, Tensor w, Tensor b, Precision precision,
              const std::optional<LowRank>& low_rank = {},
              const std::optional<QuantizedProduct>& quantized = {},
              const std::optional<Tensor>& scale = {});

}  // namespace kinema::nn
