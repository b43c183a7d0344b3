#pragma once

#include <optional>

#include "kinema/graph/emit.h"
#include "kinema/graph/ops/attrs.h"

namespace kinema::kernels {

/// convert(dot(x, w)) or convert(dot(x, w) + broadcast(bias)): a product of half floats with sums
/// in F32, which nobody else reads, rounded once to x's dtype.
struct RoundedProduct {
  const Node* dot = nullptr;
  Tensor bias = {};                         // F32 [out], or empty
  const BroadcastAttrs* repeats = nullptr;  // of the bias, to the product's sizes
};

/// What a kConvert node is; nothing where it is another. With a bias w is a matrix, without a
/// batch.
std::optional<RoundedProduct> rounded_product(const Node& convert, const Emitter& out);

}  // namespace kinema::kernels
