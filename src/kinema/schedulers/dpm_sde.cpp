#include <algorithm>
#include <cmath>

#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

/// Noise and signal of an ancestral step from sigma to `to`: noise of `up`, and exp(t_down - t) =
/// down / sigma of the sample.
struct Ancestral {
  double up, ratio;
  Ancestral(double sigma, double to)
      : up(std::min(to, std::sqrt(to * to * (sigma * sigma - to * to) / (sigma * sigma)))),
        ratio(std::sqrt(to * to - up * up) / sigma) {}
};

}  // namespace

/// DPM-Solver++ (SDE), two evaluations in each step but the last: at the middle m = sqrt(sigma
/// sigma') of log sigma, and the step with the data prediction there. Each goes to sigma_down and
/// adds noise of sigma_up (euler_ancestral.cpp):
///
///     y = down_m / sigma x + (1 - down_m / sigma) x_0(x, sigma) + up_m z_1
///     x' = down / sigma x + (1 - down / sigma) x_0(y, m) + up z_2
///
/// z_1 and z_2 are increments of one Brownian path in sigma, as in k-diffusion.
Schedule dpm_sde(const ScheduleConfig& config, int64_t steps, int64_t /*tokens*/) {
  const Ladder ladder = exploding_levels(config, steps);
  const std::vector<double> training =
      noise_of(config) == Noise::EDM ? std::vector<double>() : training_sigmas(config);
  Schedule out{.config = config,
               .form = {.noise = true},
               .initial_scale = static_cast<float>(ladder.initial_scale)};
  const auto evaluate = [&](double sigma, double timestep, double related) -> StepCoefficients& {
    out.sigmas.push_back(static_cast<float>(sigma));
    out.timesteps.push_back(static_cast<float>(timestep));
    out.noise_correlation.push_back(related);
    const Denoiser model = denoiser_of(config, sigma);
    return out.steps.emplace_back(StepCoefficients{.input = static_cast<float>(model.input),
                                                   .data_x = static_cast<float>(model.data.x),
                                                   .data_v = static_cast<float>(model.data.v)});
  };
  for (size_t i = 0; i < ladder.timesteps.size(); ++i) {
    const double sigma = static_cast<float>(ladder.sigmas[i]);
    const double next = static_cast<float>(ladder.sigmas[i + 1]);
    StepCoefficients& first = evaluate(sigma, ladder.timesteps[i], 0.0);
    if (next == 0.0 || i + 1 == ladder.timesteps.size()) {  // Euler's step
      first.from_c = static_cast<float>(next / sigma);
      first.from_m0 = static_cast<float>(1.0 - next / sigma);
      break;
    }
    const double middle = std::sqrt(sigma * next);
    const Ancestral half(sigma, middle);
    first.from_c = static_cast<float>(half.ratio);
    first.from_m0 = static_cast<float>(1.0 - half.ratio);
    first.from_noise = static_cast<float>(half.up);
    const Ancestral full(sigma, next);
    StepCoefficients& second =
        evaluate(middle, training.empty() ? 0.25 * std::log(middle) : timestep_of(middle, training),
                 std::sqrt((sigma - middle) / (sigma - next)));
    second.correct_x = 0;
    second.correct_previous = 1;
    second.from_c = static_cast<float>(full.ratio);
    second.from_m0 = static_cast<float>(1.0 - full.ratio);
    second.from_noise = static_cast<float>(full.up);
  }
  out.sigmas.push_back(static_cast<float>(ladder.sigmas.back()));
  return out;
}

}  // namespace kinema::schedulers
