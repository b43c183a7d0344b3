#pragma once

#include <optional>
#include <string>

#include "kinema/graph/ops.h"
#include "kinema/nn/adapter.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// x converted to `dtype`; x itself if it has that dtype.
Tensor as(Tensor x, DType dtype);

/// Logical axes of a linear layer's output and input, and its initialisation.
struct LinearOptions {
  std::string out_axis = {};
  std::string in_axis = {};
  std::string bias_axis = {};
  Init init = Init::xavier();
  bool bias = true;
  Init bias_init = Init::zeros();
};

/// y = x W^T + b over the last axis: `weight` [out, in], `bias` [out] unless the options have none,
/// as torch stores them. A LinearAdapter changes the product where Params::low_rank is above 0.
class Linear {
 public:
  Linear(const Params& params, int64_t in, int64_t out, const LinearOptions& options);

  /// x [..., in] -> [..., out] in x's dtype; the weight is rounded to it first.
  Tensor operator()(Tensor x, Precision precision) const;

 private:
  Tensor weight_;
  std::optional<Tensor> scale_;  // of a weight that is stored as codes
  Tensor bias_;                  // or empty
  std::optional<LinearAdapter> adapter_;
  std::optional<QuantizedProduct> quantized_;
};

/// x [..., in] times w [out, in] transposed plus b [out], if there is one. Sums and the bias are in
/// f32 or wider, rounded once to x's dtype. If quantized, the product is rounded to x's dtype
/// before the bias is added; the adapter's product is not quantized. With `scale` [out], w holds
/// codes (int8, float8): they are widened for the product, which is then scaled, or multiplied
/// directly if the product is quantized to the same codes.
Tensor linear(Tensor x, Tensor w, Tensor b, Precision precision,
              const std::optional<LinearAdapter>& adapter = {},
              const std::optional<QuantizedProduct>& quantized = {},
              const std::optional<Tensor>& scale = {});

}  // namespace kinema::nn
