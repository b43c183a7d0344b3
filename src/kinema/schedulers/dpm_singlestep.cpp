#include <algorithm>
#include <array>

#include "kinema/schedulers/dpm_weights.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// Groups of `order` evaluations, the k-th of which goes from the group's first sample to its own
/// next level with order k (arXiv:2206.00927, algorithms 1 and 2).
Schedule dpm_singlestep(const ScheduleConfig& config, int64_t steps, int64_t tokens) {
  const Solver& solver = config.solver;
  if (solver.ancestral) {
    return dpm_2s_ancestral(config, steps, tokens);
  }
  check_dpm(config);
  Schedule out = with_levels(config, solver_levels(config, steps, tokens));
  out.form.long_history = solver.order > 2;
  out.form.noise = solver.stochastic;
  const auto count = static_cast<int64_t>(out.timesteps.size());
  const auto level = [&](int64_t i) { return level_of(config, out.sigmas[i]); };
  // Groups are those of all steps, also where the first ones are left out, as in diffusers.
  const int64_t first = config.first_step;
  const bool ends_low = !config.levels.ends_at_sigma_min ||
                        (solver.lower_order_final && (first + count) % solver.order == 0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t order =
        i == count - 1 && ends_low ? 1 : std::min((first + i) % solver.order + 1, i + 1);
    const int64_t start = i + 1 - order;
    const auto gap = [&](int64_t to) { return level(to).lambda() - level(start).lambda(); };
    const DpmWeights w = dpm_weights(solver, level(start), level(i + 1), order);
    const Linear kept =
        solver.predicts_noise ? noise_prediction_of(config, level(i)) : data_of(config, level(i));
    // D1 and D2 as combinations of far = (m0 - D0) / r and near = (m1 - D0) / r1.
    const double r = gap(i) / gap(i + 1);
    const double r1 = gap(start + 1) / gap(i + 1);
    const bool has_near = order == 3 && solver.heun;
    const double far = has_near ? (2.0 * w.d2 - w.d1 * r1) / (r - r1) : w.d1;
    const double near = has_near ? (w.d1 * r - 2.0 * w.d2) / (r - r1) : 0.0;
    std::array<double, 3> m{};
    m[order - 1] = w.d0;
    if (order > 1) {
      m[0] += far / r;
      m[1] += near / r1;
      m[order - 1] -= far / r + near / r1;
    }
    StepCoefficients& step = out.steps.emplace_back(evaluation(input_of(config, level(i)), kept));
    step.correct_x = order == 1 ? 1.0F : 0.0F;
    step.correct_previous = order == 1 ? 0.0F : 1.0F;
    step.from_c = static_cast<float>(w.sample);
    step.from_m0 = static_cast<float>(m[0]);
    step.from_m1 = static_cast<float>(m[1]);
    step.from_m2 = static_cast<float>(m[2]);
    step.from_noise = static_cast<float>(w.noise);
  }
  return out;
}

}  // namespace kinema::schedulers
