#include "kinema/schedulers/unipc.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kinema::schedulers {
namespace {

/// Half the log signal-to-noise ratio of x_t = (1 - sigma) x_0 + sigma eps; infinite at sigma 0.
double lambda(double sigma) {
  return sigma == 0.0 ? std::numeric_limits<double>::infinity()
                      : std::log(1.0 - sigma) - std::log(sigma);
}

/// A step from sigma s to sigma t; phi = B(h) = expm1(-h), which is -1 for the step to 0.
struct Move {
  double h, phi, ratio, alpha;
  Move(double s, double t)
      : h(lambda(t) - lambda(s)), phi(std::expm1(-h)), ratio(t / s), alpha(1.0 - t) {}
};

/// c = (t/s) x_prev - a phi m1 - a B (rho1 D1 + rho2 (m0 - m1)), D1 = (m2 - m1) / r.
void set_corrector(StepCoefficients& out, const Move& move, int64_t order, double r) {
  double rho1 = 0.0;
  double rho2 = 0.5;
  if (order == 2) {
    // [[1, 1], [r, 1]] (rho1, rho2) = (b1, b2), the moments of the exponential integrator.
    const double hh = -move.h;
    const double phi1 = move.phi / hh - 1.0;
    const double b1 = phi1 / move.phi;
    const double b2 = 2.0 * (phi1 / hh - 0.5) / move.phi;
    rho1 = (b1 - b2) / (1.0 - r);
    rho2 = b1 - rho1;
  }
  const double d1 = order == 2 ? rho1 / r : 0.0;
  const double scale = move.alpha * move.phi;
  out.correct_x = 0.0F;
  out.correct_previous = static_cast<float>(move.ratio);
  out.correct_m0 = static_cast<float>(-scale * rho2);
  out.correct_m1 = static_cast<float>(-scale * (1.0 - d1 - rho2));
  out.correct_m2 = static_cast<float>(-scale * d1);
}

/// x' = (t/s) c - a phi m0 - a B D1 / 2, D1 = (m1 - m0) / r.
void set_predictor(StepCoefficients& out, const Move& move, int64_t order, double r) {
  const double d1 = order == 2 ? 0.5 / r : 0.0;
  const double scale = move.alpha * move.phi;
  out.from_c = static_cast<float>(move.ratio);
  out.from_m0 = static_cast<float>(-scale * (1.0 - d1));
  out.from_m1 = static_cast<float>(-scale * d1);
}

}  // namespace

std::vector<StepCoefficients> unipc_steps(std::span<const float> sigmas) {
  const auto count = static_cast<int64_t>(sigmas.size()) - 1;
  std::vector<StepCoefficients> steps(static_cast<size_t>(count));
  int64_t previous_order = 0;
  for (int64_t i = 0; i < count; ++i) {
    StepCoefficients& step = steps[i];
    step.data_v = -sigmas[i];
    const auto gap = [&](int64_t from, int64_t to) {
      return lambda(sigmas[to]) - lambda(sigmas[from]);
    };
    if (i > 0) {
      const Move move(sigmas[i - 1], sigmas[i]);
      const double r = previous_order == 2 ? -gap(i - 2, i - 1) / move.h : 0.0;
      set_corrector(step, move, previous_order, r);
    }
    // At the start the history limits the order; at the end the reference lowers it for stability.
    const auto order = std::min<int64_t>({2, count - i, i + 1});
    const Move move(sigmas[i], sigmas[i + 1]);
    const double r = order == 2 ? -gap(i - 1, i) / move.h : 0.0;
    set_predictor(step, move, order, r);
    previous_order = order;
  }
  return steps;
}

}  // namespace kinema::schedulers
