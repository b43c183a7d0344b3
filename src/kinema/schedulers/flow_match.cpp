#include "kinema/schedulers/flow_match.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "kinema/core/error.h"

namespace kinema::schedulers {
namespace {

/// The bell's value at both ends of [0, 1000], exp(-1/2); the weight there is 0.
constexpr double kEnd = 0.60653065971263342;
/// 1 / mean(bell - kEnd) over t = 1000 shift3(linspace(1, sigma_min, 1000)).
constexpr double kScale = 4.56030019439873;

/// The same formulas, for numbers and tensors.
template <typename T>
T mode(T r, T cosine, double scale) {
  return 1.0 - r - scale * (cosine * cosine - 1.0 + r);
}

template <typename T>
T cosmap(T sigma) {
  return 2.0 / (std::numbers::pi * (1.0 - 2.0 * sigma + 2.0 * (sigma * sigma)));
}

/// sqrt(2) erfinv(x) / x with w = -log(1 - x^2), for the middle and for the tails: the polynomials
/// of single precision in M. Giles, Approximating the erfinv function, 2010.
constexpr std::array kMiddle{2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                             -4.39150654e-06, 0.00021858087,  -0.00125372503,
                             -0.00417768164,  0.246640727,    1.50140941};
constexpr std::array kTail{-0.000200214257, 0.000100950558, 0.00134934322,
                           -0.00367342844,  0.00573950773,  -0.0076224613,
                           0.00943887047,   1.00167406,     2.83297682};
constexpr double kMiddleEnds = 5.0;

template <typename T>
T polynomial(const std::array<double, 9>& coefficients, T w) {
  T out = coefficients[0] * w + coefficients[1];
  for (size_t i = 2; i < coefficients.size(); ++i) {
    out = out * w + coefficients[i];
  }
  return out * std::numbers::sqrt2;
}

/// Values at the very ends are moved inwards: float32 has no others between them and the ends.
constexpr double kEnds = 1e-7;

}  // namespace

double normal_quantile(double u) {
  const double inside = std::clamp(u, kEnds, 1.0 - kEnds);
  const double x = 2.0 * inside - 1.0;
  const double w = -std::log(4.0 * inside * (1.0 - inside));
  return x * (w < kMiddleEnds ? polynomial(kMiddle, w - 2.5) : polynomial(kTail, std::sqrt(w) - 3));
}

Tensor normal_quantile(Tensor u) {
  const Tensor inside = minimum(maximum(u, kEnds), 1.0 - kEnds);
  const Tensor x = 2.0 * inside - 1.0;
  const Tensor w = -log(4.0 * (inside * (1.0 - inside)));
  return x * select(compare(w, Comparison::LT, kMiddleEnds), polynomial(kMiddle, w - 2.5),
                    polynomial(kTail, sqrt(w) - 3.0));
}

Density density_from_string(std::string_view name) {
  if (name == "none") {
    return Density::UNIFORM;
  }
  if (name == "logit_normal") {
    return Density::LOGIT_NORMAL;
  }
  check(name == "mode",
        "[scheduler] `{}` is not a density of noise levels, expected none, "
        "logit_normal or mode",
        name);
  return Density::MODE;
}

double FlowMatch::density_of(double drawn) const {
  switch (density) {
    case Density::UNIFORM:
      return drawn;
    case Density::LOGIT_NORMAL:
      return 1.0 / (1.0 + std::exp(-(logit_mean + logit_std * drawn)));
    case Density::MODE:
      return mode(drawn, std::cos(std::numbers::pi / 2.0 * drawn), mode_scale);
  }
  fail("[scheduler] unknown density {}", static_cast<int>(density));
}

Tensor FlowMatch::density_of(Tensor drawn) const {
  switch (density) {
    case Density::UNIFORM:
      return drawn;
    case Density::LOGIT_NORMAL:
      return logistic(logit_mean + logit_std * drawn);
    case Density::MODE:
      return mode(drawn, cos(std::numbers::pi / 2.0 * drawn), mode_scale);
  }
  fail("[scheduler] unknown density {}", static_cast<int>(density));
}

double FlowMatch::level(double u) const {
  if (levels > 0) {
    const auto n = static_cast<double>(levels);
    // u rounds to 1 at the density's end.
    return (n - std::min(std::floor(n * u), n - 1.0)) / n;
  }
  return density == Density::UNIFORM ? u : 1.0 - u;
}

Tensor FlowMatch::level(Tensor u) const {
  if (levels > 0) {
    const auto n = static_cast<double>(levels);
    return (n - minimum(floor(n * u), n - 1.0)) / n;
  }
  return density == Density::UNIFORM ? u : 1.0 - u;
}

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
  const double noise = sigma(t);
  switch (weighting) {
    case Weighting::BELL: {
      const double s = t / num_train_timesteps - 0.5;
      return std::max(0.0, kScale * (std::exp(-2.0 * s * s) - kEnd));
    }
    case Weighting::NONE:
      return 1.0;
    case Weighting::SIGMA_SQRT: {
      const double least = std::max(noise, 1.0 / num_train_timesteps);
      return 1.0 / (least * least);
    }
    case Weighting::COSMAP:
      return cosmap(noise);
  }
  fail("[scheduler] unknown weighting {}", static_cast<int>(weighting));
}

Tensor FlowMatch::weight(Tensor t) const {
  switch (weighting) {
    case Weighting::BELL: {
      const Tensor s = t / num_train_timesteps - 0.5;
      return maximum(kScale * (exp(-2.0 * (s * s)) - kEnd), 0.0);
    }
    case Weighting::NONE:
      return ones_like(t);
    case Weighting::SIGMA_SQRT: {
      const Tensor least = maximum(sigma(t), 1.0 / num_train_timesteps);
      return 1.0 / (least * least);
    }
    case Weighting::COSMAP:
      return cosmap(sigma(t));
  }
  fail("[scheduler] unknown weighting {}", static_cast<int>(weighting));
}

}  // namespace kinema::schedulers
