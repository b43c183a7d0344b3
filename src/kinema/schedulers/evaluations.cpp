#include "kinema/schedulers/evaluations.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kinema/schedulers/model_output.h"

namespace kinema::schedulers {

Ancestral ancestral(double sigma, double next) {
  const double up =
      std::min(next, std::sqrt(next * next * (sigma * sigma - next * next) / (sigma * sigma)));
  return {.up = up, .down = std::sqrt(next * next - up * up)};
}

void advance(StepCoefficients& step, double ratio) {
  step.from_c = static_cast<float>(ratio);
  step.from_m0 = static_cast<float>(1.0 - ratio);
}

Evaluations::Evaluations(const ScheduleConfig& config, int64_t steps)
    : schedule{.config = config},
      ladder_(from_first_step(config, exploding_levels(config, steps))),
      timestep_of_([](double sigma) { return 0.25 * std::log(sigma); }) {
  schedule.initial_scale = static_cast<float>(ladder_.initial_scale);
  schedule.explodes = true;
  const bool is_continuous =
      noise_of(config) == Noise::EDM ||
      (config.levels.continuous && config.diffusion.prediction_type == Prediction::V_PREDICTION);
  if (!is_continuous) {
    timestep_of_ = [training = training_sigmas(config)](double sigma) {
      return timestep_of(sigma, training);
    };
  }
}

StepCoefficients& Evaluations::append(double sigma, double timestep) {
  schedule.sigmas.push_back(static_cast<float>(sigma));
  schedule.timesteps.push_back(static_cast<float>(timestep));
  const Denoiser model = denoiser_of(schedule.config, sigma);
  return schedule.steps.emplace_back(evaluation(model.input, model.data));
}

void Evaluations::end() {
  const int64_t last = steps() - 1;
  advance(at(last), level(last + 1) / level(last));
  schedule.sigmas.push_back(static_cast<float>(level(last + 1)));
}

}  // namespace kinema::schedulers
