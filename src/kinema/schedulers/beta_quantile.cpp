#include "kinema/schedulers/beta_quantile.h"

#include <cmath>

namespace kinema::schedulers {
namespace {

/// The distribution function of Beta(a, a) for x up to 1/2, from the power series of the incomplete
/// beta function: x^a sum_n (1 - a)_n / (n! (a + n)) x^n / B(a, a). Its terms fall as 2^-n or
/// faster.
double distribution(double x, double a) {
  double term = 1.0;
  double sum = 1.0 / a;
  for (int n = 1; n < 200; ++n) {
    term *= (n - a) / n * x;
    sum += term / (a + n);
    if (std::abs(term) < 1e-17) {
      break;
    }
  }
  const double log_beta = 2.0 * std::lgamma(a) - std::lgamma(2.0 * a);
  return std::exp(a * std::log(x) - log_beta) * sum;
}

}  // namespace

double beta_quantile(double p, double shape) {
  if (p <= 0.0 || p >= 1.0) {
    return p <= 0.0 ? 0.0 : 1.0;
  }
  if (p > 0.5) {
    return 1.0 - beta_quantile(1.0 - p, shape);
  }
  double low = 0.0;
  double high = 0.5;
  for (int i = 0; i < 60; ++i) {  // bisection to the last bit of a double
    const double middle = 0.5 * (low + high);
    (distribution(middle, shape) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace kinema::schedulers
