#include "kinema/schedulers/model_output.h"

#include <cmath>
#include <limits>

#include "kinema/core/error.h"

namespace kinema::schedulers {

double Level::lambda() const {
  return sigma == 0.0 ? std::numeric_limits<double>::infinity() : std::log(alpha) - std::log(sigma);
}

Level level_of(const ScheduleConfig& config, double sigma) {
  switch (noise_of(config)) {
    case Noise::FLOW:
      return {.alpha = 1.0 - sigma, .sigma = sigma};
    case Noise::DIFFUSION: {
      const double alpha = 1.0 / std::hypot(sigma, 1.0);
      return {.alpha = alpha, .sigma = sigma * alpha};
    }
    case Noise::EDM:
      return {.alpha = 1.0, .sigma = sigma};
  }
  fail("[scheduler] unknown kind of noise {}", static_cast<int>(noise_of(config)));
}

Linear data_of(const ScheduleConfig& config, const Level& level) {
  const double sigma = level.sigma;
  const Noise noise = noise_of(config);
  if (noise == Noise::EDM) {  // c_skip x + c_out F
    const double data = config.edm.sigma_data;
    const double root = std::hypot(sigma, data);
    const bool velocity = config.diffusion.prediction_type == Prediction::V_PREDICTION;
    return {.x = data * data / (root * root), .v = (velocity ? -1.0 : 1.0) * sigma * data / root};
  }
  if (noise == Noise::FLOW && !config.flow_predicts) {
    return {.x = 1.0, .v = -sigma};
  }
  switch (noise == Noise::FLOW ? *config.flow_predicts : config.diffusion.prediction_type) {
    case Prediction::EPSILON:
      return {.x = 1.0 / level.alpha, .v = -sigma / level.alpha};
    case Prediction::V_PREDICTION:
      return {.x = level.alpha, .v = -sigma};
    case Prediction::SAMPLE:
      return {.x = 0.0, .v = 1.0};
  }
  fail("[scheduler] unknown prediction");
}

Linear noise_prediction_of(const ScheduleConfig& config, const Level& level) {
  const bool is_diffusion = noise_of(config) == Noise::DIFFUSION;
  if (is_diffusion && config.diffusion.prediction_type == Prediction::EPSILON) {
    return {.x = 0.0, .v = 1.0};
  }
  if (is_diffusion && config.diffusion.prediction_type == Prediction::V_PREDICTION) {
    return {.x = level.sigma, .v = level.alpha};
  }
  const Linear data = data_of(config, level);
  return {.x = (1.0 - level.alpha * data.x) / level.sigma,
          .v = -level.alpha * data.v / level.sigma};
}

double input_of(const ScheduleConfig& config, const Level& level) {
  return noise_of(config) == Noise::EDM ? 1.0 / std::hypot(level.sigma, config.edm.sigma_data)
                                        : 1.0;
}

StepCoefficients evaluation(double input, const Linear& data) {
  return {.input = static_cast<float>(input),
          .data_x = static_cast<float>(data.x),
          .data_v = static_cast<float>(data.v)};
}

Denoiser denoiser_of(const ScheduleConfig& config, double sigma) {
  const Level level = level_of(config, sigma);
  Linear data = data_of(config, level);
  if (noise_of(config) == Noise::EDM) {
    return {.input = input_of(config, level), .data = data};
  }
  data.x *= level.alpha;  // the network's input, of variance 1, is alpha times the sample
  return {.input = level.alpha, .data = data};
}

}  // namespace kinema::schedulers
