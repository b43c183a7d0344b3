#include "kinema/schedulers/dpm_weights.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"

namespace kinema::schedulers {

/// With h the step in log signal-to-noise. The stochastic solvers are the same with 2 h.
DpmWeights dpm_weights(const Solver& solver, const Level& from, const Level& to, int64_t order) {
  const double h = to.lambda() - from.lambda();
  DpmWeights out;
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

int64_t multistep_order(const ScheduleConfig& config, int64_t step, int64_t count) {
  const Solver& solver = config.solver;
  constexpr int64_t kFew = 15;  // the reference lowers the order only of runs this short
  const bool lowers = solver.lower_order_final && config.first_step + count < kFew;
  if (step == count - 1 && (solver.euler_at_final || lowers || !config.levels.ends_at_sigma_min)) {
    return 1;
  }
  return std::min({solver.order, step + 1, step == count - 2 && lowers ? int64_t{2} : int64_t{3}});
}

void check_order(const Solver& solver, std::string_view name) {
  check(solver.order >= 1 && solver.order <= 3,
        "[scheduler] solver_order is {}, expected 1 to 3 of {}", solver.order, name);
}

void check_dpm(const ScheduleConfig& config) {
  const Solver& solver = config.solver;
  check_order(solver, "DPM-Solver++");
  check(!solver.predicts_noise || config.levels.ends_at_sigma_min,
        "[scheduler] the algorithm_type dpmsolver needs final_sigmas_type sigma_min\n  use "
        "dpmsolver++, which ends at 0");
  check(!solver.predicts_noise || noise_of(config) == Noise::DIFFUSION,
        "[scheduler] the algorithm_type dpmsolver is of diffusions only\n  use dpmsolver++");
  check(!solver.predicts_noise || !solver.stochastic || solver.order < 3,
        "[scheduler] solver_order is 3, but sde-dpmsolver has 1 and 2\n  use sde-dpmsolver++");
  check(!solver.predicts_noise || !solver.stochastic || config.sampler != Sampler::DPM_SINGLESTEP,
        "[scheduler] the algorithm_type sde-dpmsolver has no single steps\n  use sde-dpmsolver++");
  check(!config.limit.threshold || !solver.predicts_noise,
        "[scheduler] thresholding needs data predictions, which the algorithm_type dpmsolver does "
        "not make\n  use dpmsolver++");
}

}  // namespace kinema::schedulers
