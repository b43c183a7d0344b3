#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Samplers as tables of numbers, computed on the host before anything runs.
namespace kinema::schedulers {

/// The samplers of Wan pipelines, both on the rectified flow x_t = (1 - sigma) x_0 + sigma eps.
enum class Sampler {
  UNIPC,             // diffusers UniPCMultistepScheduler, order 2, bh2, flow prediction
  FLOW_MATCH_EULER,  // diffusers FlowMatchEulerDiscreteScheduler
};

/// `unipc` or `euler` and the diffusers class names; throws an Error naming the known ones.
Sampler sampler_from_string(std::string_view name);
/// `UniPCMultistepScheduler` or `FlowMatchEulerDiscreteScheduler`.
std::string_view class_name(Sampler sampler);

struct ScheduleConfig {
  Sampler sampler = Sampler::UNIPC;
  double shift = 3.0;  // flow_shift of UniPC, shift of Euler
  int64_t num_train_timesteps = 1000;
  bool operator==(const ScheduleConfig&) const = default;
};

/// One solver step as a linear map. With x the current sample, v the model's velocity and m1, m2
/// the data predictions of the last and the second last step (zeros at first):
///
///     m0 = x - sigma v
///     c  = x x + previous x_prev + m0 m0 + m1 m1 + m2 m2           (corrected sample)
///     x' = from_c c + from_m0 m0 + from_m1 m1 + from_v v           (next sample)
///
/// The next step is given x', x_prev = c, m1 = m0, m2 = m1.
struct StepCoefficients {
  float sigma = 0;
  float correct_x = 1, correct_previous = 0, correct_m0 = 0, correct_m1 = 0, correct_m2 = 0;
  float from_c = 0, from_m0 = 0, from_m1 = 0, from_v = 0;

  static constexpr int64_t kCount = 10;
  /// In the order of declaration.
  std::vector<float> values() const;
};

/// Everything about a sampling run that does not depend on the sample.
struct Schedule {
  ScheduleConfig config;
  std::vector<float> sigmas;     // steps + 1, the last one 0
  std::vector<float> timesteps;  // what the model is given; whole numbers for UniPC
  std::vector<StepCoefficients> steps;

  int64_t size() const { return static_cast<int64_t>(steps.size()); }
};

/// The table of a sampler for `num_inference_steps` steps; throws an Error when the number of steps
/// or the shift is out of range. Positions, not timesteps, choose the row: with many steps and a
/// large shift two steps may share a timestep.
Schedule make_schedule(const ScheduleConfig& config, int64_t num_inference_steps);

/// The tables of FlowMatchEulerDiscreteScheduler before any number of steps is set.
struct TrainingTable {
  std::vector<float> sigmas;     // num_train_timesteps, falling
  std::vector<float> timesteps;  // 1000 sigma
};
TrainingTable euler_training_table(double shift, int64_t num_train_timesteps = 1000);

}  // namespace kinema::schedulers
