#pragma once

#include <string>

#include "graph/ops.h"
#include "nn/params.h"

namespace kinema::nn {

/// x as `dtype`; x itself when it already is.
Tensor as(Tensor x, DType dtype);

/// Names of the logical axes of a linear layer's two sides, and its initialisation.
struct LinearOptions {
  std::string out_axis = {};
  std::string in_axis = {};
  std::string bias_axis = {};
  Init init = Init::xavier();
};

/// y = x W^T + b over the last axis: `weight` [out, in], `bias` [out], as torch stores them.
class Linear {
 public:
  Linear(const Params& params, int64_t in, int64_t out, const LinearOptions& options);

  /// x [..., in] -> [..., out] in x's dtype; the weight is rounded to it first.
  Tensor operator()(Tensor x, Precision precision) const;

 private:
  Tensor weight_;
  Tensor bias_;
};

/// x [..., in] times w [out, in] transposed plus b [out]; sums and the bias in f32 at least,
/// rounded once to x's dtype.
Tensor linear(Tensor x, Tensor w, Tensor b, Precision precision);

}  // namespace kinema::nn
