#include "kinema/schedulers/dpm_weights.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {

/// Each step integrates the polynomial through the last `order` data predictions
/// (arXiv:2211.01095, algorithm 2).
Schedule dpm_multistep(const ScheduleConfig& config, int64_t steps, int64_t tokens) {
  check_dpm(config);
  Schedule out = with_levels(config, solver_levels(config, steps, tokens));
  out.form.long_history = config.solver.order > 2;
  out.form.noise = config.solver.stochastic;
  const auto count = static_cast<int64_t>(out.timesteps.size());
  const auto level = [&](int64_t i) { return level_of(config, out.sigmas[i]); };
  const auto gap = [&](int64_t i) { return level(i + 1).lambda() - level(i).lambda(); };
  for (int64_t i = 0; i < count; ++i) {
    const Level from = level(i);
    const int64_t order = multistep_order(config, i, count);
    const DpmWeights w = dpm_weights(config.solver, from, level(i + 1), order);
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
    StepCoefficients& step = out.steps.emplace_back(evaluation(input_of(config, from), kept));
    step.from_c = static_cast<float>(w.sample);
    step.from_m0 = static_cast<float>(m0);
    step.from_m1 = static_cast<float>(m1);
    step.from_m2 = static_cast<float>(m2);
    step.from_noise = static_cast<float>(w.noise);
  }
  return out;
}

}  // namespace kinema::schedulers
