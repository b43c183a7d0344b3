#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

/// x' = sample x + d0 D0 + d1 D1 + d2 D2 + noise z of one step, where D0 = m0 and D1, D2 are the
/// first and second divided differences of the history (arXiv:2211.01095, section 4 and appendix
/// C).
struct Weights {
  double sample = 0, d0 = 0, d1 = 0, d2 = 0, noise = 0;
};

/// With h the step in log signal-to-noise. The stochastic solvers are the same with 2 h.
Weights weights(const Solver& solver, const Level& from, const Level& to, int64_t order) {
  const double h = to.lambda() - from.lambda();
  Weights out;
  if (!solver.predicts_noise) {
    const double z = solver.stochastic ? 2.0 * h : h;
    const double phi = std::expm1(-z);  // -1 at the end, where h is infinite
    out.sample = to.sigma / from.sigma * (solver.stochastic ? std::exp(-h) : 1.0);
    out.d0 = -to.alpha * phi;
    if (order > 1) {
      out.d1 = order == 2 && !solver.heun ? 0.5 * out.d0 : to.alpha * (phi / z + 1.0);
    }
    if (order > 2) {
      // diffusers has - 1/2 in the stochastic solver, where the integral gives + 1/2.
      out.d2 = -to.alpha * ((phi + z) / (z * z) + (solver.stochastic ? 0.5 : -0.5));
    }
    out.noise = solver.stochastic ? to.sigma * std::sqrt(-std::expm1(-2.0 * h)) : 0.0;
    return out;
  }
  const double twice = solver.stochastic ? 2.0 : 1.0;
  const double phi = std::expm1(h);
  out.sample = to.alpha / from.alpha;
  out.d0 = -twice * to.sigma * phi;
  if (order > 1) {
    out.d1 = order == 2 && !solver.heun ? 0.5 * out.d0 : -twice * to.sigma * (phi / h - 1.0);
  }
  if (order > 2) {
    out.d2 = -to.sigma * ((phi - h) / (h * h) - 0.5);
  }
  out.noise = solver.stochastic ? to.sigma * std::sqrt(std::expm1(2.0 * h)) : 0.0;
  return out;
}

int64_t order_of(const ScheduleConfig& config, int64_t step, int64_t count) {
  const Solver& solver = config.solver;
  constexpr int64_t kFew = 15;  // the reference lowers the order only of runs this short
  const bool lowers = solver.lower_order_final && count < kFew;
  if (step == count - 1 && (solver.euler_at_final || lowers || !config.levels.ends_at_sigma_min)) {
    return 1;
  }
  return std::min({solver.order, step + 1, step == count - 2 && lowers ? int64_t{2} : int64_t{3}});
}

void check_solver(const ScheduleConfig& config) {
  const Solver& solver = config.solver;
  check(solver.order >= 1 && solver.order <= 3,
        "[scheduler] solver_order is {}, expected 1 to 3 of DPM-Solver++", solver.order);
  check(!solver.predicts_noise || config.levels.ends_at_sigma_min,
        "[scheduler] the algorithm_type dpmsolver needs final_sigmas_type sigma_min\n  use "
        "dpmsolver++, which ends at 0");
  check(!solver.predicts_noise || noise_of(config) == Noise::DIFFUSION,
        "[scheduler] the algorithm_type dpmsolver is of diffusions only\n  use dpmsolver++");
  check(!solver.predicts_noise || !solver.stochastic || solver.order < 3,
        "[scheduler] solver_order is 3, but sde-dpmsolver has 1 and 2\n  use sde-dpmsolver++");
  check(!config.limit.threshold || !solver.predicts_noise,
        "[scheduler] thresholding needs data predictions, which the algorithm_type dpmsolver does "
        "not make\n  use dpmsolver++");
}

}  // namespace

Schedule dpm_multistep(const ScheduleConfig& config, int64_t steps, int64_t tokens) {
  check_solver(config);
  Schedule out = with_levels(config, solver_levels(config, steps, tokens));
  out.form.long_history = config.solver.order > 2;
  out.form.noise = config.solver.stochastic;
  const auto count = static_cast<int64_t>(out.timesteps.size());
  const auto level = [&](int64_t i) { return level_of(config, out.sigmas[i]); };
  const auto gap = [&](int64_t i) { return level(i + 1).lambda() - level(i).lambda(); };
  for (int64_t i = 0; i < count; ++i) {
    const Level from = level(i);
    const int64_t order = order_of(config, i, count);
    const Weights w = weights(config.solver, from, level(i + 1), order);
    const Linear kept =
        config.solver.predicts_noise ? noise_prediction_of(config, from) : data_of(config, from);
    // D1 and D2 as combinations of m0, m1 and m2.
    double m0 = w.d0;
    double m1 = 0.0;
    double m2 = 0.0;
    if (order == 2) {
      const double r = gap(i - 1) / gap(i);
      m0 += w.d1 / r;
      m1 = -w.d1 / r;
    } else if (order == 3) {
      const double r0 = gap(i - 1) / gap(i);
      const double r1 = gap(i - 2) / gap(i);
      // first = (m0 - m1) / r0, second = (m1 - m2) / r1; D1 = first + r0 (first - second) / (r0 +
      // r1), D2 = (first - second) / (r0 + r1)
      const double change = (w.d1 * r0 + w.d2) / (r0 + r1);
      const double first = w.d1 + change;
      m0 += first / r0;
      m1 = -first / r0 - change / r1;
      m2 = change / r1;
    }
    out.steps.push_back({.input = static_cast<float>(input_of(config, from)),
                         .data_x = static_cast<float>(kept.x),
                         .data_v = static_cast<float>(kept.v),
                         .from_c = static_cast<float>(w.sample),
                         .from_m0 = static_cast<float>(m0),
                         .from_m1 = static_cast<float>(m1),
                         .from_m2 = static_cast<float>(m2),
                         .from_noise = static_cast<float>(w.noise)});
  }
  return out;
}

}  // namespace kinema::schedulers
