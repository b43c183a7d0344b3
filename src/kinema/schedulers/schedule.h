#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/schedulers/diffusion.h"
#include "kinema/schedulers/settings.h"

/// Samplers as tables of numbers, computed on the host before anything runs.
namespace kinema::schedulers {

enum class Sampler {
  UNIPC,             // UniPCMultistepScheduler (arXiv:2302.04867)
  FLOW_MATCH_EULER,  // FlowMatchEulerDiscreteScheduler
  FLOW_MATCH_HEUN,   // FlowMatchHeunDiscreteScheduler
  EULER,             // EulerDiscreteScheduler, EDMEulerScheduler
  DDIM,              // DDIMScheduler, eta 0 (arXiv:2010.02502)
  EULER_ANCESTRAL,   // EulerAncestralDiscreteScheduler
  HEUN,              // HeunDiscreteScheduler (arXiv:2206.00364, algorithm 1)
  LMS,               // LMSDiscreteScheduler
  DPM_MULTISTEP,     // DPMSolverMultistepScheduler (arXiv:2211.01095)
  DPM_SDE,           // DPMSolverSDEScheduler
  DPM_SINGLESTEP,    // DPMSolverSinglestepScheduler (arXiv:2206.00927)
  DEIS,              // DEISMultistepScheduler (arXiv:2204.13902)
  KDPM2,             // KDPM2DiscreteScheduler
  KDPM2_ANCESTRAL,   // KDPM2AncestralDiscreteScheduler
  DDPM,              // DDPMScheduler (arXiv:2006.11239)
  PNDM,              // PNDMScheduler (arXiv:2202.09778)
  LCM,               // LCMScheduler (arXiv:2310.04378)
  TCD,               // TCDScheduler (arXiv:2402.19159)
};

/// True for the samplers of diffusers' classes FlowMatch...: those with settings of flows alone.
constexpr bool is_flow_match(Sampler sampler) {
  return sampler == Sampler::FLOW_MATCH_EULER || sampler == Sampler::FLOW_MATCH_HEUN;
}

/// What x_t is of data x_0 and noise eps.
enum class Noise {
  FLOW,       // (1 - sigma) x_0 + sigma eps
  DIFFUSION,  // sqrt(a) x_0 + sqrt(1 - a) eps, sigma = sqrt((1 - a) / a)
  EDM,        // x_0 + sigma eps, with input and output scaled (Edm)
};

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

/// A sampler with everything that it is computed from.
struct ScheduleConfig {
  Sampler sampler = Sampler::UNIPC;
  /// Empty: the first of the sampler's kinds (SamplerInfo::kinds).
  std::optional<Noise> noise = {};
  double shift = 3.0;  // flow_shift of UniPC, shift of Euler
  int64_t num_train_timesteps = 1000;
  /// FLOW_MATCH_EULER and FLOW_MATCH_HEUN: sigmas evenly spaced from 1 to 1/steps, as in Flux,
  /// instead of from the training table.
  bool even_sigmas = false;
  /// Replaces `shift`.
  std::optional<DynamicShift> dynamic_shift = {};
  /// Of Noise::DIFFUSION; prediction_type also of EDM.
  Diffusion diffusion = {};
  /// Of Noise::FLOW: empty for eps - x_0.
  std::optional<Prediction> flow_predicts = {};
  Solver solver = {};
  Levels levels = {};
  Limit limit = {};
  Edm edm = {};
  /// Steps before this one are left out, because the sample at its noise level is given (image to
  /// image). Solvers have no history there.
  int64_t first_step = 0;
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

/// What the model learned.
Noise noise_of(const ScheduleConfig& config);
/// True for a rectified flow.
bool is_flow(const ScheduleConfig& config);
/// The reason why models with this schedule are sampled, but not trained or converted: training
/// has another objective. Empty for the others.
std::string_view why_not_trained(const ScheduleConfig& config);

/// The spacing of a diffusion's sampler: the configuration's, else the default of diffusers' class.
Spacing spacing_of(const ScheduleConfig& config);
/// True if data predictions are clipped: the configuration's, else the default of diffusers' class.
bool clips_sample(const ScheduleConfig& config);

/// One evaluation of the model and the solver's update as a linear map. With x the current sample,
/// v the model's prediction at `input` x, m1, m2 and m3 the data predictions of the last three
/// steps (zeros at first), and z standard normal noise:
///
///     m0 = data_x x + data_v v, limited (StepForm::limit)
///     c  = x x + previous x_prev + m0 m0 + m1 m1 + m2 m2 + m3 m3    (corrected sample)
///     x' = from_c c + from_m0 m0 + from_m1 m1 + from_m2 m2 + from_m3 m3 + from_v v + from_x x
///          + from_previous x_prev + from_noise z
///
/// The next step is given x', x_prev = c and, if is_kept, m1 = m0, m2 = m1, m3 = m2. For a flow, v
/// is the velocity and m0 = x - sigma v. A sampler may choose another m0, such as the predicted
/// noise.
struct StepCoefficients {
  float input = 1;
  float data_x = 1, data_v = 0;
  float correct_x = 1, correct_previous = 0, correct_m0 = 0, correct_m1 = 0, correct_m2 = 0;
  float from_c = 0, from_m0 = 0, from_m1 = 0, from_v = 0;
  // Of forms with a long history; from_noise of forms with noise.
  float correct_m3 = 0, from_m2 = 0, from_m3 = 0, from_x = 0, from_previous = 0, from_noise = 0;
  bool is_kept = true;

  static constexpr int64_t kCount = 18;
  /// The numbers, in the order of declaration.
  std::vector<float> values() const;
};

/// The part of a step that its compiled program depends on: all samplers of one form share it.
struct StepForm {
  bool long_history = false;  // m3 is kept, and correct_m3 to from_previous are read
  bool noise = false;         // from_noise is read
  enum class Limit { NONE, CLIP, THRESHOLD };
  Limit limit = Limit::NONE;
  /// CLIP: m0 is clipped to [-bound, bound]. THRESHOLD: to [-s, s], then divided by s, where s is
  /// the quantile `ratio` of |m0|, at least 1 and at most `bound`.
  double bound = 1.0;
  double scale = 1.0;  // CLIP: m0 is divided by it
  double ratio = 0.995;

  bool operator==(const StepForm&) const = default;
};

/// Throws an Error for a configuration of an unknown class or with an unsupported setting, with the
/// samplers to use instead.
void check_class(const ScheduleConfig& config);

/// Samplers that `scheduler=` may name when the sampler of this schedule cannot be used:
/// `euler or unipc`, `euler or ddim`, `euler` where DDIM would clip.
std::string other_samplers(const ScheduleConfig& config);

/// A sample is signal x_0 + noise eps.
struct Mix {
  float signal = 1;
  float noise = 0;
};

/// Everything about a sampling run that does not depend on the sample.
struct Schedule {
  ScheduleConfig config;
  std::vector<float> sigmas;     // steps + 1 or more, the last one 0 unless the configuration says
  std::vector<float> timesteps;  // what the model is given; whole numbers for UniPC and DDIM
  /// One for each evaluation of the model: more than num_inference_steps for samplers that evaluate
  /// it twice in a step.
  std::vector<StepCoefficients> steps;
  StepForm form = {};
  /// For each step the correlation of its noise with the noise of the step before; empty: 0.
  std::vector<double> noise_correlation = {};
  /// What standard normal noise is multiplied with to make the first sample.
  float initial_scale = 1;
  bool explodes = false;  // samples are x_0 + sigma eps, whatever the model learned

  int64_t size() const { return static_cast<int64_t>(steps.size()); }
  /// The parts of data and noise in a sample before an evaluation; size(): after the last one,
  /// data alone.
  Mix mix(int64_t evaluation) const;
};

/// The number of steps: that of given sigmas or timesteps, else num_inference_steps. Throws an
/// Error if both are given or out of range.
int64_t step_count(const ScheduleConfig& config, int64_t num_inference_steps);

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
