#pragma once

#include "kinema/schedulers/schedule.h"

/// What a model's output says of data and noise.
namespace kinema::schedulers {

/// A noise level: x_t = alpha x_0 + sigma eps.
struct Level {
  double alpha = 1.0;
  double sigma = 0.0;
  /// Half the log signal-to-noise ratio; infinite at sigma 0.
  double lambda() const;
};

/// The level of a scheduler's sigma: the noise of a flow or of EDM, sqrt((1 - a) / a) of a
/// diffusion, whose samples have variance 1.
Level level_of(const ScheduleConfig& config, double sigma);

/// x x_t + v v of the sample x_t and the model's output v.
struct Linear {
  double x = 0.0;
  double v = 0.0;
};

/// The data prediction of a sample with this level.
Linear data_of(const ScheduleConfig& config, const Level& level);
/// The predicted noise, (x_t - alpha x_0) / sigma.
Linear noise_prediction_of(const ScheduleConfig& config, const Level& level);
/// The factor of the network's input at this level: 1 but for EDM.
double input_of(const ScheduleConfig& config, const Level& level);

/// An evaluation of the model whose m0 is `data`, without an update of the sample.
StepCoefficients evaluation(double input, const Linear& data);

/// A model of samples x_0 + sigma eps, as in k-diffusion, of Noise::DIFFUSION or EDM.
struct Denoiser {
  double input = 1.0;  // factor of the network's input
  Linear data;
};
Denoiser denoiser_of(const ScheduleConfig& config, double sigma);

}  // namespace kinema::schedulers
