#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/schedulers/diffusion.h"

/// Samplers as tables of numbers, computed on the host before anything runs.
namespace kinema::schedulers {

enum class Sampler {
  // On the rectified flow x_t = (1 - sigma) x_0 + sigma eps.
  UNIPC,             // diffusers UniPCMultistepScheduler, order 2, bh2, flow prediction
  FLOW_MATCH_EULER,  // diffusers FlowMatchEulerDiscreteScheduler
  // On the diffusion x_t = sqrt(a_t) x_0 + sqrt(1 - a_t) eps.
  EULER,  // diffusers EulerDiscreteScheduler
  DDIM,   // diffusers DDIMScheduler, eta 0 (arXiv:2010.02502)
};

/// True for samplers of rectified flows.
bool is_flow(Sampler sampler);

/// `unipc`, `flow_match_euler`, `euler_discrete`, `ddim` and diffusers' class names, with or
/// without `Flax`; `euler` is FLOW_MATCH_EULER if `flow`, else EULER. Throws an Error that lists
/// the names for another one.
Sampler sampler_from_string(std::string_view name, bool flow = true);
/// True for one of these names.
bool is_sampler(std::string_view name);
/// `UniPCMultistepScheduler`, `FlowMatchEulerDiscreteScheduler`, ...
std::string_view class_name(Sampler sampler);

/// A shift of sigmas that depends on the picture's number of tokens (Flux): sigma -> e^mu / (e^mu +
/// 1/sigma - 1), where mu is `base` at `base_tokens`, `max` at `max_tokens` and on the line through
/// both elsewhere.
struct DynamicShift {
  double base = 0.5;
  double max = 1.15;
  int64_t base_tokens = 256;
  int64_t max_tokens = 4096;

  double mu(int64_t tokens) const;
  bool operator==(const DynamicShift&) const = default;
};

struct ScheduleConfig {
  Sampler sampler = Sampler::UNIPC;
  double shift = 3.0;  // flow_shift of UniPC, shift of Euler
  int64_t num_train_timesteps = 1000;
  /// FLOW_MATCH_EULER: sigmas evenly spaced from 1 to 1/steps, as in Flux, instead of from the
  /// training table.
  bool even_sigmas = false;
  /// Replaces `shift`.
  std::optional<DynamicShift> dynamic_shift = {};
  /// EULER, DDIM.
  Diffusion diffusion = {};
  /// The class of a file whose sampler kinema does not have. The model's training is known, but not
  /// how to sample it, until `sampler` is set, which clears this.
  std::string unknown_class = {};
  /// A message about an unsupported setting of the file's sampler. The model's training is known,
  /// and setting `sampler` clears this.
  std::string unsupported = {};
  /// The shift for a picture of `tokens` tokens: e^mu if dynamic. Not for diffusions.
  double shift_of(int64_t tokens) const;
  bool operator==(const ScheduleConfig&) const = default;
};

/// The spacing of a diffusion's sampler: the configuration's, else the default of diffusers' class.
Spacing spacing_of(const ScheduleConfig& config);
/// True if the sampler would clip, DDIMScheduler's default: kinema's samplers do not.
bool clips_sample(const ScheduleConfig& config);

/// One solver step as a linear map. With x the current sample, v the model's prediction at
/// `input` x, and m1, m2 the data predictions of the last and the second last step (zeros at
/// first):
///
///     m0 = data_x x + data_v v
///     c  = x x + previous x_prev + m0 m0 + m1 m1 + m2 m2           (corrected sample)
///     x' = from_c c + from_m0 m0 + from_m1 m1 + from_v v           (next sample)
///
/// The next step is given x', x_prev = c, m1 = m0, m2 = m1. For a flow, v is the velocity and
/// m0 = x - sigma v.
struct StepCoefficients {
  float input = 1;
  float data_x = 1, data_v = 0;
  float correct_x = 1, correct_previous = 0, correct_m0 = 0, correct_m1 = 0, correct_m2 = 0;
  float from_c = 0, from_m0 = 0, from_m1 = 0, from_v = 0;

  static constexpr int64_t kCount = 12;
  /// In the order of declaration.
  std::vector<float> values() const;
};

/// Throws an Error for a configuration of an unknown class or with an unsupported setting (with the
/// samplers to use instead), and for a sampler that would clip.
void check_class(const ScheduleConfig& config);

/// Samplers that `scheduler=` may name when the sampler of this schedule cannot be used:
/// `euler or unipc`, `euler or ddim`, `euler` where DDIM would clip.
std::string other_samplers(const ScheduleConfig& config);

/// Everything about a sampling run that does not depend on the sample.
struct Schedule {
  ScheduleConfig config;
  std::vector<float> sigmas;     // steps + 1, the last one 0
  std::vector<float> timesteps;  // what the model is given; whole numbers for UniPC and DDIM
  std::vector<StepCoefficients> steps;
  /// What standard normal noise is multiplied with to make the first sample.
  float initial_scale = 1;

  int64_t size() const { return static_cast<int64_t>(steps.size()); }
};

/// The table of a sampler for `num_inference_steps` steps; `tokens`: those of a picture, for a
/// dynamic shift. Throws an Error if the number of steps or the shift is out of range. Rows are
/// selected by position, not by timestep: with many steps and a large shift two steps may have the
/// same timestep.
Schedule make_schedule(const ScheduleConfig& config, int64_t num_inference_steps,
                       int64_t tokens = 0);

/// The tables of FlowMatchEulerDiscreteScheduler before any number of steps is set.
struct TrainingTable {
  std::vector<float> sigmas;     // num_train_timesteps, falling
  std::vector<float> timesteps;  // 1000 sigma
};
TrainingTable euler_training_table(double shift, int64_t num_train_timesteps = 1000);

}  // namespace kinema::schedulers
