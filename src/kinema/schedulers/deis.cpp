#include <cmath>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/schedulers/dpm_weights.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

/// The integral from 0 to t of Q(log t), the polynomial that is 1 at logs[k] and 0 at the other
/// logs, of which there are at most three: t (Q - Q' + Q'').
double integral(const std::vector<double>& logs, size_t k, double t) {
  double q = 1.0, first = 0.0, second = 0.0;
  for (size_t j = 0; j < logs.size(); ++j) {
    if (j != k) {  // times (log t - logs[j]) / scale, by the product rule
      const double scale = logs[k] - logs[j];
      const double factor = (std::log(t) - logs[j]) / scale;
      second = second * factor + 2.0 * first / scale;
      first = first * factor + q / scale;
      q *= factor;
    }
  }
  return t * (q - first + second);
}

}  // namespace

/// x' = alpha' (x / alpha + sum_k w_k m_k) over the last predicted noises, where w_k integrates the
/// polynomial of noise k in log rho from rho to rho', with rho = sigma / alpha (arXiv:2204.13902).
Schedule deis(const ScheduleConfig& config, int64_t steps, int64_t tokens) {
  check_order(config.solver, "DEIS");
  check(!config.limit.threshold, "[scheduler] thresholding needs data predictions, not DEIS");
  Schedule out = with_levels(config, solver_levels(config, steps, tokens));
  out.form.long_history = config.solver.order > 2;
  const auto count = static_cast<int64_t>(out.timesteps.size());
  for (int64_t i = 0; i < count; ++i) {
    const auto level = [&](int64_t at) { return level_of(config, out.sigmas[at]); };
    const auto rho = [&](int64_t at) { return level(at).sigma / level(at).alpha; };
    std::vector<double> logs;
    for (int64_t k = 0; k < multistep_order(config, i, count); ++k) {
      logs.push_back(std::log(rho(i - k)));
    }
    const double alpha = level(i + 1).alpha;
    const auto weight = [&](size_t k) {
      return k < logs.size() ? alpha * (integral(logs, k, rho(i + 1)) - integral(logs, k, rho(i)))
                             : 0.0;
    };
    const Linear noise = noise_prediction_of(config, level(i));
    StepCoefficients& step = out.steps.emplace_back(evaluation(input_of(config, level(i)), noise));
    // m0 written out: its part of x nearly cancels x / alpha at the start of a flow.
    step.from_c = static_cast<float>(alpha / level(i).alpha + weight(0) * noise.x);
    step.from_v = static_cast<float>(weight(0) * noise.v);
    step.from_m1 = static_cast<float>(weight(1));
    step.from_m2 = static_cast<float>(weight(2));
  }
  return out;
}

}  // namespace kinema::schedulers
