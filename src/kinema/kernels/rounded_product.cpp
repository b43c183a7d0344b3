#include "kinema/kernels/rounded_product.h"

#include "kinema/graph/ops.h"

namespace kinema::kernels {
namespace {

/// Whether a value of the product's sizes is a broadcast of one number per element of its last
/// axis.
bool is_bias_of(const Node& repeated, const Node& dot) {
  const DotDims& dims = dot.get<DotAttrs>().dims;
  const int64_t last = dot.results[0].rank() - 1;
  return repeated.op == &kBroadcast && repeated.shape(0).rank() == 1 &&
         repeated.shape(0).dtype == DType::F32 &&
         repeated.get<BroadcastAttrs>().axes == std::vector<int64_t>{last} &&
         repeated.shape(0).dims[0] == dot.results[0].dims[static_cast<size_t>(last)] &&
         dims.lhs_batch.empty() && dims.rhs_contract.size() == 1 && dot.shape(1).rank() == 2;
}

}  // namespace

std::optional<RoundedProduct> rounded_product(const Node& convert, const Emitter& out) {
  const DType dtype = convert.results[0].dtype;
  const Tensor sum = convert.input(0);
  if ((dtype != DType::BF16 && dtype != DType::F16) || out.uses(sum) != 1) {
    return std::nullopt;
  }
  const bool has_bias = sum.node().op == &kAdd;
  const Tensor product = has_bias ? sum.node().input(0) : sum;
  const Node& dot = product.node();
  if (dot.op != &kDotGeneral || out.uses(product) != 1 || dot.shape(0).dtype != dtype ||
      dot.shape(1).dtype != dtype || dot.results[0].dtype != DType::F32) {
    return std::nullopt;
  }
  if (!has_bias) {
    return RoundedProduct{.dot = &dot};
  }
  const Node& repeated = sum.node().input(1).node();
  return is_bias_of(repeated, dot) ? std::optional(RoundedProduct{&dot, repeated.input(0),
                                                                  &repeated.get<BroadcastAttrs>()})
                                   : std::nullopt;
}

}  // namespace kinema::kernels
