#include "kinema/graph/product_after_loop.h"

#include <algorithm>

#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {

std::optional<ProductAfterLoop> ProductAfterLoop::of(Tensor step) {
  ProductAfterLoop out;
  Tensor at = step;
  const auto is = [&](const Op& op) { return at.node().op == &op; };
  while (is(kTranspose) || is(kReshape) || is(kConvert)) {
    if (!is(kConvert)) {
      out.after_.push_back(&at.node());
    }
    at = at.node().input(0);
  }
  if (!is(kDotGeneral) || !is_float(at.node().input(0).dtype())) {
    return std::nullopt;
  }
  std::ranges::reverse(out.after_);
  out.left_ = at.node().input(0);
  out.right_ = at.node().input(1);
  out.attrs_ = at.node().get<DotAttrs>();
  // The sum is read and written.
  const bool is_smaller =
      out.left_.shape().bytes() + out.right_.shape().bytes() <= 2 * at.shape().bytes();
  return is_smaller ? std::optional(out) : std::nullopt;
}

Tensor ProductAfterLoop::operator()(Tensor lefts, Tensor rights) const {
  DotDims dims = attrs_.dims;
  for (auto* axes : {&dims.lhs_batch, &dims.rhs_batch, &dims.lhs_contract, &dims.rhs_contract}) {
    for (int64_t& axis : *axes) {
      ++axis;
    }
  }
  dims.lhs_contract.insert(dims.lhs_contract.begin(), 0);
  dims.rhs_contract.insert(dims.rhs_contract.begin(), 0);
  const DType dtype = accumulation_dtype(lefts.dtype());
  Tensor sum = dot_general(lefts, rights, dims, attrs_.precision, dtype);
  for (const Node* node : after_) {
    sum = node->op == &kReshape ? reshape(sum, node->results[0].dims)
                                : transpose(sum, node->get<TransposeAttrs>().order);
  }
  return sum;
}

}  // namespace kinema
