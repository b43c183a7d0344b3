#include "kinema/training/ema.h"

#include <algorithm>
#include <cmath>

namespace kinema::training {

double Ema::decay_at(int64_t n) const {
  const auto s = static_cast<double>(n - update_after_step - 1);
  if (s <= 0.0) {
    return 0.0;
  }
  const double most = warmup ? 1.0 - std::pow(1.0 + s / inv_gamma, -power) : (1.0 + s) / (10.0 + s);
  return std::clamp(most, 0.0, decay);
}

Tensor Ema::decay_at(Tensor n) const {
  // Written so that the plain rule from the first update on, (1 + n) / (10 + n), is computed
  // exactly as that formula.
  const Tensor s = update_after_step == -1 ? n : n - static_cast<double>(update_after_step + 1);
  if (!warmup && update_after_step == -1) {
    return minimum((s + 1.0) / (s + 10.0), decay);
  }
  const Tensor at = maximum(s, 0.0);
  const Tensor most =
      warmup ? 1.0 - exp(log(1.0 + at * (1.0 / inv_gamma)) * -power) : (at + 1.0) / (at + 10.0);
  const Tensor zero = constant(n.graph(), 0.0, n.shape());
  return select(compare(s, Comparison::GT, 0.0), minimum(most, decay), zero);
}

}  // namespace kinema::training
