#include "kinema/nn/dropout.h"

namespace kinema::nn {

Tensor Dropout::operator()(Tensor x, std::string_view place) const {
  if (!active()) {
    return x;
  }
  const Tensor kept =
      compare(random_uniform(fold_in(key_, place), x.shape().dims), Comparison::GE, rate_);
  return select(kept, x * (1.0 / (1.0 - rate_)), zeros_like(x));
}

Dropout Dropout::at(Tensor layer) const {
  return active() ? Dropout(rate_, fold_in(key_, layer)) : Dropout();
}

}  // namespace kinema::nn
