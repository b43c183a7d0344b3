#include <algorithm>
#include <array>
#include <cmath>

#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

/// The integral from `from` to `to` of the polynomial that is 1 at levels[at - k] and 0 at the
/// other ones of levels[at] to levels[at - order + 1]; two Gauss points are exact for order 4.
double weight(const std::vector<float>& levels, int64_t at, int64_t order, int64_t k) {
  const double middle = 0.5 * (levels[at + 1] + static_cast<double>(levels[at]));
  const double half = 0.5 * (levels[at + 1] - static_cast<double>(levels[at]));
  double sum = 0.0;
  for (const double sign : {-1.0, 1.0}) {
    double value = 1.0;
    for (int64_t j = 0; j < order; ++j) {
      const double other = levels[at - j];
      value *=
          j == k ? 1.0 : (middle + sign * half / std::sqrt(3.0) - other) / (levels[at - k] - other);
    }
    sum += value;
  }
  return half * sum;
}

}  // namespace

/// x' = x + sum_k w_k d_k over the last four derivatives d = (x - x_0) / sigma (Adams-Bashforth of
/// uneven steps); the derivative takes the place of m0.
Schedule lms(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  Schedule out = with_levels(config, exploding_levels(config, steps));
  out.form.long_history = true;
  for (int64_t i = 0; i < static_cast<int64_t>(out.timesteps.size()); ++i) {
    const double sigma = out.sigmas[i];
    const Denoiser model = denoiser_of(config, sigma);
    StepCoefficients k{.input = static_cast<float>(model.input),
                       .data_x = static_cast<float>((1.0 - model.data.x) / sigma),
                       .data_v = static_cast<float>(-model.data.v / sigma),
                       .from_c = 1};
    const std::array<float*, 4> to{&k.from_m0, &k.from_m1, &k.from_m2, &k.from_m3};
    const int64_t order = std::min<int64_t>(i + 1, 4);
    for (int64_t j = 0; j < order; ++j) {
      *to[j] = static_cast<float>(weight(out.sigmas, i, order, j));
    }
    out.steps.push_back(k);
  }
  return out;
}

}  // namespace kinema::schedulers
