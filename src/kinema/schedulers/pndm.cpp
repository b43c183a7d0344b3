#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

/// x' = sample s + output e of a step from timestep t to `next` with the noise e, equation 11 of
/// arXiv:2202.09778; of v-prediction, e is the velocity.
struct Transfer {
  double sample, output;
};

class Tables {
 public:
  explicit Tables(const ScheduleConfig& config)
      : config_(config), all_(alphas_cumprod(config.diffusion, config.num_train_timesteps)) {
    check(config.diffusion.prediction_type != Prediction::SAMPLE,
          "[scheduler] PNDM samples models of epsilon and v_prediction, not of `sample`\n  use "
          "scheduler=euler");
    check(all_.back() > 0.0F,
          "[scheduler] PNDM takes no rescale_betas_zero_snr\n  use "
          "scheduler=euler");
  }

  Transfer transfer(int64_t from, int64_t to) const {
    const double a = at(from);
    const double next = at(to);
    const double denominator = a * std::sqrt(1.0 - next) + std::sqrt(a * (1.0 - a) * next);
    Transfer out{.sample = std::sqrt(next / a), .output = -(next - a) / denominator};
    if (config_.diffusion.prediction_type == Prediction::V_PREDICTION) {
      out.sample += out.output * std::sqrt(1.0 - a);
      out.output *= std::sqrt(a);
    }
    return out;
  }

  void add(Schedule& out, int64_t t, const StepCoefficients& step) const {
    const double a = at(t);
    out.timesteps.push_back(static_cast<float>(t));
    out.sigmas.push_back(static_cast<float>(sigma_of(a)));
    out.steps.push_back(step);
    out.steps.back().data_x = 0;  // the outputs take the place of m0
    out.steps.back().data_v = 1;
  }

 private:
  double at(int64_t t) const {
    return t >= 0                               ? all_.at(static_cast<size_t>(t))
           : config_.diffusion.set_alpha_to_one ? 1.0
                                                : all_.front();
  }
  const ScheduleConfig& config_;
  std::vector<float> all_;
};

/// A Runge-Kutta step from t to `next`: four outputs e1 to e4, of which e1 is kept, and the
/// transfer with e1/6 + e2/3 + e3/3 + e4/6. `previous` is the step's first sample.
void add_runge_kutta(const Tables& tables, int64_t t, int64_t next, int64_t apart, Schedule& out) {
  const int64_t half = next + apart / 2;
  const Transfer first = tables.transfer(t, t - apart / 2);
  const Transfer middle = tables.transfer(t, half);
  const Transfer end = tables.transfer(t, next);
  tables.add(
      out, t,
      {.from_m0 = static_cast<float>(first.output), .from_x = static_cast<float>(first.sample)});
  tables.add(out, half,
             {.correct_x = 0,
              .correct_previous = 1,
              .from_c = static_cast<float>(middle.sample),
              .from_m0 = static_cast<float>(middle.output),
              .is_kept = false});
  // e2 = (x - middle.sample previous) / middle.output; the corrected sample is the end's without
  // e4.
  const double third = end.output / 3.0;
  tables.add(
      out, half,
      {.correct_x = static_cast<float>(third / middle.output),
       .correct_previous = static_cast<float>(end.sample - third * middle.sample / middle.output),
       .correct_m0 = static_cast<float>(third),
       .correct_m1 = static_cast<float>(end.output / 6.0),
       .from_m0 = static_cast<float>(end.output),
       .from_previous = static_cast<float>(end.sample),
       .is_kept = false});
  tables.add(out, next,
             {.correct_x = 0,
              .correct_previous = 1,
              .from_c = 1,
              .from_m0 = static_cast<float>(end.output / 6.0),
              .is_kept = false});
}

/// The first step without Runge-Kutta: Euler's, then again with the mean of both outputs.
void add_two_evaluations(const Tables& tables, int64_t t, int64_t next, int64_t apart,
                         Schedule& out) {
  const Transfer first = tables.transfer(t, t - apart);
  tables.add(
      out, t,
      {.from_m0 = static_cast<float>(first.output), .from_x = static_cast<float>(first.sample)});
  const Transfer second = tables.transfer(next + apart, next);
  tables.add(out, next,
             {.from_m0 = static_cast<float>(second.output / 2.0),
              .from_m1 = static_cast<float>(second.output / 2.0),
              .from_previous = static_cast<float>(second.sample),
              .is_kept = false});
}

/// Adams-Bashforth of the last `order` outputs.
void add_multistep(const Tables& tables, int64_t t, int64_t apart, int64_t order, Schedule& out) {
  const Transfer k = tables.transfer(t, t - apart);
  const auto scaled = [&](double weight) { return static_cast<float>(k.output * weight); };
  StepCoefficients step{.from_x = static_cast<float>(k.sample)};
  if (order == 2) {
    step.from_m0 = scaled(3.0 / 2.0);
    step.from_m1 = scaled(-1.0 / 2.0);
  } else if (order == 3) {
    step.from_m0 = scaled(23.0 / 12.0);
    step.from_m1 = scaled(-16.0 / 12.0);
    step.from_m2 = scaled(5.0 / 12.0);
  } else if (order == 4) {
    step.from_m0 = scaled(55.0 / 24.0);
    step.from_m1 = scaled(-59.0 / 24.0);
    step.from_m2 = scaled(37.0 / 24.0);
    step.from_m3 = scaled(-9.0 / 24.0);
  } else {
    step.from_m0 = scaled(1.0);
  }
  tables.add(out, t, step);
}

}  // namespace

Schedule pndm(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  check(config.levels.timesteps.empty(),
        "[scheduler] PNDM takes no timesteps\n  use scheduler=euler, ddpm, lcm or tcd");
  const Tables tables(config);
  const std::vector<int64_t> timesteps = whole_timesteps(config, steps);
  const int64_t apart = config.num_train_timesteps / steps;
  const auto count = static_cast<int64_t>(timesteps.size());
  Schedule out{.config = config, .form = {.long_history = true}};
  if (!config.solver.skip_prk_steps) {
    check(count >= 4,
          "[scheduler] there are {} steps, but PNDM starts with Runge-Kutta steps and needs 4 or "
          "more\n  skip_prk_steps: true leaves them out",
          count);
    for (int64_t i = 0; i < 3; ++i) {
      add_runge_kutta(tables, timesteps[i], timesteps[i + 1], apart, out);
    }
    for (int64_t i = 3; i < count; ++i) {
      add_multistep(tables, timesteps[i], apart, 4, out);
    }
  } else if (count == 1) {
    add_multistep(tables, timesteps[0], apart, 1, out);
  } else {
    add_two_evaluations(tables, timesteps[0], timesteps[1], apart, out);
    for (int64_t i = 1; i < count; ++i) {
      add_multistep(tables, timesteps[i], apart, std::min<int64_t>(i + 1, 4), out);
    }
  }
  out.sigmas.push_back(0.0F);
  return out;
}

}  // namespace kinema::schedulers
