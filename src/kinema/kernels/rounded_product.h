#pragma once

#include <optional>

#include "kinema/graph/emit.h"
#include "kinema/graph/ops/attrs.h"

namespace kinema::kernels {

/// convert(dot(x, w)) or convert(dot(x, w) + broadcast(bias)): a half-precision product with F32
/// sums, read by nothing else, rounded once to x's dtype.
struct RoundedProduct {
  const Node* dot = nullptr;
  Tensor bias = {};                         // F32 [out], or empty
  const BroadcastAttrs* repeats = nullptr;  // from the bias to the product's sizes
};

/// The rounded product that a kConvert node computes; empty if it is something else. With a bias, w
/// is a matrix without a batch.
std::optional<RoundedProduct> rounded_product(const Node& convert, const Emitter& out);

}  // namespace kinema::kernels
