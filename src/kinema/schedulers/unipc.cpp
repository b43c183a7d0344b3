#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>

#include "kinema/core/error.h"
#include "kinema/schedulers/dpm_weights.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

/// A step between two levels. hh is -h of data predictions and h of noise predictions, phi =
/// expm1(hh), which is -1 for the step to 0; b_ratio = B(hh) / phi is 1 for bh2.
struct Move {
  double h, hh, phi, ratio, scale, b_ratio;
  Move(const Solver& solver, const Level& from, const Level& to)
      : h(to.lambda() - from.lambda()),
        hh(solver.predicts_noise ? h : -h),
        phi(std::expm1(hh)),
        ratio(solver.predicts_noise ? to.alpha / from.alpha : to.sigma / from.sigma),
        scale(solver.predicts_noise ? to.alpha * from.sigma / from.alpha - to.sigma
                                    : to.alpha * phi),
        b_ratio(solver.bh1 ? hh / phi : 1.0) {}

  /// b_1 to b_count: the moments of the exponential integrator, i! phi_{i+1} / B.
  std::array<double, 3> moments(int64_t count) const {
    std::array<double, 3> out{};
    double next = phi / hh - 1.0;
    double factorial = 1.0;
    for (int64_t i = 0; i < count; ++i) {
      out[i] = factorial * next / (phi * b_ratio);
      factorial *= static_cast<double>(i + 2);
      next = next / hh - 1.0 / factorial;
    }
    return out;
  }
};

/// rho with sum_k rho_k r_k^i = b_i for i below the number of r.
std::array<double, 3> solved(std::span<const double> r, const std::array<double, 3>& b) {
  if (r.size() == 1) {
    return {b[0]};
  }
  if (r.size() == 2) {
    const double first = (r[1] * b[0] - b[1]) / (r[1] - r[0]);
    return {first, b[0] - first};
  }
  std::array<double, 3> out{};
  for (size_t k = 0; k < 3; ++k) {
    const double p = r[(k + 1) % 3];
    const double q = r[(k + 2) % 3];
    out[k] = (b[2] - (p + q) * b[1] + p * q * b[0]) / ((r[k] - p) * (r[k] - q));
  }
  return out;
}

/// c = ratio x_prev - scale m1 - scale B/phi (sum_k rho_k D_k + rho (m0 - m1)), with D_k = (m_(k+1)
/// - m1) / r_k; `r` has the r_k.
void set_corrector(StepCoefficients& out, const Move& move, std::span<const double> r) {
  std::array<double, 3> rho{0.5};
  std::vector<double> nodes(r.begin(), r.end());
  nodes.push_back(1.0);
  if (!r.empty()) {
    rho = solved(nodes, move.moments(static_cast<int64_t>(nodes.size())));
  }
  const double q = move.b_ratio;
  const double last = rho[r.size()];
  double of_m1 = 1.0;
  std::array<float*, 2> to{&out.correct_m2, &out.correct_m3};
  for (size_t k = 0; k < r.size(); ++k) {
    const double d = q * rho[k] / r[k];
    of_m1 -= d;
    *to[k] = static_cast<float>(-move.scale * d);
  }
  out.correct_x = 0.0F;
  out.correct_previous = static_cast<float>(move.ratio);
  out.correct_m0 = static_cast<float>(-move.scale * (q * last));
  out.correct_m1 = static_cast<float>(-move.scale * (of_m1 - q * last));
}

/// x' = ratio c - scale m0 - scale B/phi sum_k rho_k D_k, with D_k = (m_k - m0) / r_k.
void set_predictor(StepCoefficients& out, const Move& move, std::span<const double> r) {
  const std::array<double, 3> rho =
      r.size() < 2 ? std::array<double, 3>{0.5} : solved(r, move.moments(2));
  double of_m0 = 1.0;
  std::array<float*, 2> to{&out.from_m1, &out.from_m2};
  for (size_t k = 0; k < r.size(); ++k) {
    const double d = move.b_ratio * rho[k] / r[k];
    of_m0 -= d;
    *to[k] = static_cast<float>(-move.scale * d);
  }
  out.from_c = static_cast<float>(move.ratio);
  out.from_m0 = static_cast<float>(-move.scale * of_m0);
}

void check_unipc(const ScheduleConfig& config, int64_t steps) {
  const Solver& solver = config.solver;
  check_order(solver, "UniPC");
  // The first steps are of lower orders, so a single one is of order 1.
  check(solver.lower_order_final || std::min(solver.order, steps) == 1 ||
            config.levels.ends_at_sigma_min,
        "[scheduler] lower_order_final is false and final_sigmas_type zero: the last step of order "
        "{} would divide by zero\n  set final_sigmas_type to sigma_min, or use another scheduler",
        solver.order);
  check(!solver.predicts_noise || noise_of(config) == Noise::DIFFUSION || config.flow_predicts,
        "[scheduler] predict_x0 is false, but a model of flow_prediction needs true\n  use "
        "another scheduler, or set predict_x0");
  check(!config.limit.threshold || !solver.predicts_noise,
        "[scheduler] thresholding needs predict_x0");
}

}  // namespace

Schedule unipc(const ScheduleConfig& config, int64_t steps, int64_t tokens) {
  check_unipc(config, steps);
  Schedule out = with_levels(config, solver_levels(config, steps, tokens));
  const std::vector<float>& sigmas = out.sigmas;
  const auto end = sigmas.end() - (config.levels.ends_at_sigma_min ? 1 : 0);
  check(std::adjacent_find(sigmas.begin(), end, std::less_equal<>()) == end,
        "[scheduler] flow_shift {} leaves neighbours of {} steps the same noise level\n"
        "  take fewer steps or a smaller flow_shift",
        config.shift, steps);
  const Solver& solver = config.solver;
  out.form.long_history = solver.order > 2;
  const auto count = static_cast<int64_t>(out.timesteps.size());
  const auto level = [&](int64_t i) { return level_of(config, sigmas[i]); };
  const auto gap = [&](int64_t from, int64_t to) {
    return level(to).lambda() - level(from).lambda();
  };
  // (lambda_k - lambda_at) / h of the `order` - 1 levels before `at`.
  const auto nodes = [&](int64_t at, int64_t order, double h) {
    std::vector<double> out_nodes;
    for (int64_t k = 1; k < order; ++k) {
      out_nodes.push_back(-gap(at - k, at) / h);
    }
    return out_nodes;
  };
  int64_t previous_order = 0;
  for (int64_t i = 0; i < count; ++i) {
    StepCoefficients& step = out.steps.emplace_back();
    const Linear kept =
        solver.predicts_noise ? noise_prediction_of(config, level(i)) : data_of(config, level(i));
    step.data_x = static_cast<float>(kept.x);
    step.data_v = static_cast<float>(kept.v);
    const auto& off = solver.disable_corrector;
    if (i > 0 && std::ranges::find(off, i - 1) == off.end()) {
      const Move move(solver, level(i - 1), level(i));
      set_corrector(step, move, nodes(i - 1, previous_order, move.h));
    }
    // At the start the history limits the order; at the end the reference lowers it for stability.
    const int64_t left = solver.lower_order_final ? count - i : solver.order;
    const int64_t order = std::min({solver.order, left, i + 1});
    const Move move(solver, level(i), level(i + 1));
    set_predictor(step, move, nodes(i, order, move.h));
    previous_order = order;
  }
  return out;
}

}  // namespace kinema::schedulers
