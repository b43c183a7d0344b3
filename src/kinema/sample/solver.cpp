#include "kinema/sample/solver.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/sample/velocity.h"

namespace kinema::sample {
namespace {

using schedulers::StepForm;

/// The count of values at most `bound`, [b, 1, 1, 1, 1], for x [b, c, f, h, w].
Tensor count_within(Tensor x, Tensor bound) {
  const Tensor within = compare(x, Comparison::LE, broadcast_to(bound, x.shape().dims));
  return sum(convert(within, DType::F32), {1, 2, 3, 4}, true);
}

/// The quantile `ratio` of the values of each sample, between order statistics as in
/// torch.quantile. x is 0 or more. The lower statistic is found by bisection: after 60 halvings the
/// interval is narrower than the distance of neighbouring floats.
Tensor quantile(Tensor x, double ratio) {
  const Dims& dims = x.shape().dims;
  const int64_t n = dims[1] * dims[2] * dims[3] * dims[4];
  check(n < (int64_t{1} << 24), "[sample] thresholding counts up to 2^24 values, not {}", n);
  const double at = ratio * static_cast<double>(n - 1);
  const auto wanted = std::floor(at) + 1.0;  // values up to the lower statistic
  const std::vector<int64_t> all{1, 2, 3, 4};
  Tensor high = max(x, all, true);
  Tensor low = zeros_like(high) - 1.0;
  for (int i = 0; i < 60; ++i) {
    const Tensor middle = 0.5 * (low + high);
    const Tensor enough = compare(count_within(x, middle), Comparison::GE, wanted);
    low = select(enough, low, middle);
    high = select(enough, middle, high);
  }
  const auto spread = [&](Tensor bound) { return broadcast_to(bound, dims); };
  const Tensor first =
      max(select(compare(x, Comparison::LE, spread(high)), x, zeros_like(x)), all, true);
  const Tensor above = compare(x, Comparison::GT, spread(first));
  const Tensor next = -max(select(above, -x, spread(-max(x, all, true))), all, true);
  const Tensor second =
      select(compare(count_within(x, first), Comparison::GT, wanted), first, next);
  return first + (at - std::floor(at)) * (second - first);
}

Tensor limited(Tensor data, const StepForm& form) {
  switch (form.limit) {
    case StepForm::Limit::NONE:
      return data;
    case StepForm::Limit::CLIP: {
      const Tensor clipped = minimum(maximum(data, -form.bound), form.bound);
      return form.scale == 1.0 ? clipped : clipped / form.scale;
    }
    case StepForm::Limit::THRESHOLD: {
      const Tensor bound = broadcast_to(
          minimum(maximum(quantile(abs(data), form.ratio), 1.0), form.bound), data.shape().dims);
      return minimum(maximum(data, -bound), bound) / bound;
    }
  }
  fail("[sample] unknown limit {}", static_cast<int>(form.limit));
}

}  // namespace

Solved solve(const SolverInputs& in, Tensor numbers, const StepForm& form) {
  const auto k = [&](int64_t i) { return number(numbers, i); };
  // In the order of StepCoefficients, of which the first is for the network's input.
  const Tensor m0 = limited(k(1) * in.x + k(2) * in.v, form);
  Tensor c = k(3) * in.x + k(4) * in.previous + k(5) * m0 + k(6) * in.m1 + k(7) * in.m2;
  if (form.long_history) {
    c = c + k(12) * in.m3;
  }
  Tensor next = k(8) * c + k(9) * m0 + k(10) * in.m1 + k(11) * in.v;
  if (form.long_history) {
    next = next + k(13) * in.m2 + k(14) * in.m3 + k(15) * in.x + k(16) * in.previous;
  }
  if (form.noise) {
    next = next + k(17) * in.noise;
  }
  return {.next = next, .corrected = c, .data = m0};
}

}  // namespace kinema::sample
