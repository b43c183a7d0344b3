#include "kinema/schedulers/flow_match.h"

#include <algorithm>
#include <cmath>

namespace kinema::schedulers {
namespace {

/// The bell's value at both ends of [0, 1000], exp(-1/2); the weight there is 0.
constexpr double kEnd = 0.60653065971263342;
/// 1 / mean(bell - kEnd) over t = 1000 shift3(linspace(1, sigma_min, 1000)).
constexpr double kScale = 4.56030019439873;

}  // namespace

double FlowMatch::timestep(double u) const {
  return num_train_timesteps * shift * u / (1.0 + (shift - 1.0) * u);
}

Tensor FlowMatch::timestep(Tensor u) const {
  return num_train_timesteps * shift * u / (1.0 + (shift - 1.0) * u);
}

double FlowMatch::uniform(double t) const {
  return t / (num_train_timesteps * shift - (shift - 1.0) * t);
}

double FlowMatch::sigma(double t) const {
  const double s = t / num_train_timesteps;
  return (1.0 - s) * sigma_min + s * sigma_max;
}

Tensor FlowMatch::sigma(Tensor t) const {
  const Tensor s = t / num_train_timesteps;
  return (1.0 - s) * sigma_min + s * sigma_max;
}

double FlowMatch::weight(double t) const {
  const double s = t / num_train_timesteps - 0.5;
  return std::max(0.0, kScale * (std::exp(-2.0 * s * s) - kEnd));
}

Tensor FlowMatch::weight(Tensor t) const {
  const Tensor s = t / num_train_timesteps - 0.5;
  return maximum(kScale * (exp(-2.0 * (s * s)) - kEnd), 0.0);
}

}  // namespace kinema::schedulers
