#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

/// The diffusion of DDPM (arXiv:2006.11239), x_t = sqrt(a_t) x_0 + sqrt(1 - a_t) eps, which Stable
/// Diffusion uses.
namespace kinema::schedulers {

/// What the network predicts.
enum class Prediction {
  EPSILON,       // the noise
  V_PREDICTION,  // sqrt(a) eps - sqrt(1 - a) x_0 (arXiv:2202.00512)
  SAMPLE,        // x_0
};
/// `epsilon`, `v_prediction` or `sample`; throws an Error that lists them for another name.
Prediction prediction_from_string(std::string_view name);
std::string_view name_of(Prediction prediction);

/// The training timesteps that a sampler visits.
enum class Spacing { LEADING, TRAILING, LINSPACE };
/// `leading`, `trailing` or `linspace`; throws an Error that lists them for another name.
Spacing spacing_from_string(std::string_view name);
std::string_view name_of(Spacing spacing);

enum class BetaSchedule {
  LINEAR,
  SCALED_LINEAR,      // linear in sqrt(beta)
  SQUAREDCOS_CAP_V2,  // a_t = cos^2((t + 0.008) / 1.008 pi / 2) (arXiv:2102.09672)
  EXP,                // a_t = exp(-12 t); HeunDiscreteScheduler
  LAPLACE,            // DDPMScheduler (arXiv:2407.03297)
  SIGMOID,            // DDPMScheduler: beta rises as the logistic function of -6 to 6
};
/// diffusers' names; throws an Error that lists them for another name.
BetaSchedule beta_schedule_from_string(std::string_view name);
std::string_view name_of(BetaSchedule schedule);

/// The keys of diffusers' scheduler_config.json; the defaults are SDXL's. Keys for which each
/// sampler has a default are empty if a file does not set them (spacing_of, clips_sample in
/// schedule.h).
struct Diffusion {
  double beta_start = 0.00085;
  double beta_end = 0.012;
  BetaSchedule beta_schedule = BetaSchedule::SCALED_LINEAR;
  /// The last timestep is pure noise (arXiv:2305.08891).
  bool rescale_betas_zero_snr = false;
  Prediction prediction_type = Prediction::EPSILON;
  std::optional<Spacing> timestep_spacing = Spacing::LEADING;
  int64_t steps_offset = 1;                 // for LEADING
  bool set_alpha_to_one = false;            // false: DDIM's last step goes to a_0, not to a = 1
  std::optional<bool> clip_sample = false;  // x_0 is clipped, see Limit
  /// Replaces the schedule if it is not empty: one beta for each training timestep.
  std::vector<double> trained_betas = {};
  bool operator==(const Diffusion&) const = default;
};

/// a_t of every timestep, the cumulative product of 1 - beta in float32 as in the reference. Throws
/// an Error if a beta is not between 0 and 1, or if trained_betas are not one for each timestep.
std::vector<float> alphas_cumprod(const Diffusion& diffusion, int64_t num_train_timesteps = 1000);

/// Weights of the loss by timestep, from the signal-to-noise ratio snr = a / (1 - a) clamped at
/// gamma (arXiv:2303.09556): min(snr, gamma) / snr for epsilon, min(snr, gamma) / (snr + 1) for
/// v_prediction.
std::vector<float> min_snr_weights(const std::vector<float>& alphas_cumprod, double gamma,
                                   Prediction prediction);

/// Loss weights of debiased estimation (arXiv:2310.08442), as kohya has them: 1 / sqrt(snr), or
/// 1 / (snr + 1) for v_prediction, with the signal-to-noise ratio a / (1 - a) at most 1000. Without
/// a signal, epsilon's weight is 1, that of min_snr_weights.
std::vector<float> debiased_weights(const std::vector<float>& alphas_cumprod,
                                    Prediction prediction);

/// Timesteps that training draws more often than others.
struct TimestepBias {
  enum class Strategy { NONE, LATER, EARLIER, RANGE };
  Strategy strategy = Strategy::NONE;
  double multiplier = 1.0;
  double portion = 0.25;  // LATER, EARLIER: the last or first part of all timesteps
  int64_t begin = 0;      // RANGE: [begin, end)
  int64_t end = 1000;
  bool operator==(const TimestepBias&) const = default;
};
/// `none`, `later`, `earlier` or `range`; throws an Error that lists them for another name.
TimestepBias::Strategy bias_strategy_from_string(std::string_view name);

/// The probability of each timestep; the sum is 1. Throws an Error if the multiplier is not above
/// 0, or if a range is outside the timesteps.
std::vector<double> timestep_probabilities(const TimestepBias& bias,
                                           int64_t num_train_timesteps = 1000);

}  // namespace kinema::schedulers
