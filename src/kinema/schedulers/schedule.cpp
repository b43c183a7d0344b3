#include "kinema/schedulers/schedule.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "kinema/core/error.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/model_output.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

/// What is done with data predictions.
void set_limit(const ScheduleConfig& config, StepForm& form) {
  const Limit& limit = config.limit;
  if (!info_of(config.sampler).limits) {
    return;
  }
  if (limit.threshold) {
    check(
        limit.ratio >= 0.0 && limit.ratio <= 1.0 && limit.max > 0.0,
        "[scheduler] dynamic_thresholding_ratio is {} and sample_max_value {}, expected 0 to 1 and "
        "a number above 0",
        limit.ratio, limit.max);
    // The bound is at least 1 and at most `max`, whatever the quantile.
    form.limit = limit.max <= 1.0 ? StepForm::Limit::CLIP : StepForm::Limit::THRESHOLD;
    form.bound = limit.max;
    form.scale = limit.max <= 1.0 ? limit.max : 1.0;
    form.ratio = limit.ratio;
  } else if (clips_sample(config)) {
    check(limit.range > 0.0, "[scheduler] clip_sample_range is {}, expected a number above 0",
          limit.range);
    form.limit = StepForm::Limit::CLIP;
    form.bound = limit.range;
  }
}

void check_dynamic_shift(const DynamicShift& shift) {
  check(shift.max_tokens > shift.base_tokens && shift.base_tokens > 0 &&
            std::isfinite(shift.base) && std::isfinite(shift.max),
        "[scheduler] the shift goes from {} at {} tokens to {} at {}: base and max sequence "
        "length must differ",
        shift.base, shift.base_tokens, shift.max, shift.max_tokens);
}

}  // namespace

Noise noise_of(const ScheduleConfig& config) {
  return config.noise.value_or(info_of(config.sampler).kinds.front());
}

bool is_flow(const ScheduleConfig& config) { return noise_of(config) == Noise::FLOW; }

std::string_view why_not_trained(const ScheduleConfig& config) {
  const Diffusion& diffusion = config.diffusion;
  return noise_of(config) == Noise::EDM ? "its input and output are scaled as in EDM"
         : config.levels.inverted       ? "its noise levels are inverted (invert_sigmas)"
         : config.flow_predicts         ? "a flow that does not predict the velocity"
         : is_flow(config)              ? ""
         : diffusion.prediction_type == Prediction::SAMPLE ? "it predicts samples (prediction_type)"
         : config.levels.continuous && diffusion.prediction_type == Prediction::V_PREDICTION
             ? "its timesteps are continuous (timestep_type)"
             : "";
}

Spacing spacing_of(const ScheduleConfig& config) {
  return config.diffusion.timestep_spacing.value_or(info_of(config.sampler).spacing);
}

bool clips_sample(const ScheduleConfig& config) {
  const SamplerInfo& info = info_of(config.sampler);
  return info.limits && !is_flow(config) && config.sampler != Sampler::UNIPC &&
         config.sampler != Sampler::DPM_MULTISTEP &&
         config.diffusion.clip_sample.value_or(info.clips);
}

std::string other_samplers(const ScheduleConfig& config) {
  if (is_flow(config)) {
    return "euler or unipc";
  }
  return noise_of(config) == Noise::EDM || config.diffusion.clip_sample.value_or(true)
             ? "euler"
             : "euler or ddim";
}

void check_class(const ScheduleConfig& config) {
  const std::string others = other_samplers(config);
  check(config.unknown_class.empty(),
        "[scheduler] the model's scheduler is a `{}`, which is not supported\n  use scheduler={}, "
        "which samples models of this kind",
        config.unknown_class, others);
  const bool has_remedy = config.unsupported.find('\n') != std::string::npos;
  check(config.unsupported.empty(), "[scheduler] {}{}use scheduler={}, which does not need it",
        config.unsupported, has_remedy ? ", or " : "\n  ", others);
}

double DynamicShift::mu(int64_t tokens) const {
  const double slope = (max - base) / static_cast<double>(max_tokens - base_tokens);
  return base + slope * static_cast<double>(tokens - base_tokens);
}

double ScheduleConfig::shift_of(int64_t tokens) const {
  if (!dynamic_shift) {
    return shift;
  }
  const double mu = dynamic_shift->mu(tokens);
  return levels.linear_shift ? mu : std::exp(mu);
}

std::vector<float> StepCoefficients::values() const {
  return {input,      data_x,     data_v,  correct_x, correct_previous, correct_m0,
          correct_m1, correct_m2, from_c,  from_m0,   from_m1,          from_v,
          correct_m3, from_m2,    from_m3, from_x,    from_previous,    from_noise};
}

int64_t step_count(const ScheduleConfig& config, int64_t num_inference_steps) {
  const Levels& levels = config.levels;
  check(levels.sigmas.empty() || levels.timesteps.empty(),
        "[scheduler] sigmas and timesteps are both given: one of them");
  check(!levels.is_given() || levels.spread == Spread::MODEL,
        "[scheduler] {} are given, and noise_levels {}: one of them",
        levels.sigmas.empty() ? "timesteps" : "sigmas", name_of(levels.spread));
  for (const double sigma : levels.sigmas) {
    check(std::isfinite(sigma) && sigma > 0.0,
          "[scheduler] sigmas has {}, expected numbers above 0 (the last one, 0, is left out)",
          sigma);
  }
  const auto train = static_cast<double>(config.num_train_timesteps);
  for (const double t : levels.timesteps) {
    check(t >= 0.0 && t <= (is_flow(config) ? train : train - 1.0),
          "[scheduler] timesteps has {}, expected 0 to {}", t, is_flow(config) ? train : train - 1);
  }
  for (const std::vector<double>* each : {&levels.sigmas, &levels.timesteps}) {
    check(std::ranges::adjacent_find(*each, std::less_equal<>()) == each->end(),
          "[scheduler] {} do not fall from each to the next",
          each == &levels.sigmas ? "sigmas" : "timesteps");
  }
  return !levels.sigmas.empty()      ? std::ssize(levels.sigmas)
         : !levels.timesteps.empty() ? std::ssize(levels.timesteps)
                                     : num_inference_steps;
}

Schedule make_schedule(const ScheduleConfig& config, int64_t num_inference_steps, int64_t tokens) {
  check_class(config);
  const SamplerInfo& info = info_of(config.sampler);
  check(std::ranges::find(info.kinds, noise_of(config)) != info.kinds.end(),
        "[scheduler] {} does not sample models of this kind\n  use scheduler={}", info.class_name,
        other_samplers(config));
  const int64_t steps = step_count(config, num_inference_steps);
  check(steps >= 1 && steps <= config.num_train_timesteps,
        "[scheduler] num_inference_steps is {}, expected 1 to {}", steps,
        config.num_train_timesteps);
  check(config.first_step >= 0 && config.first_step < steps,
        "[scheduler] the first step is {}, expected 0 to {}", config.first_step, steps - 1);
  check(std::isfinite(config.shift) && config.shift > 0.0,
        "[scheduler] flow_shift is {}, expected a number above 0", config.shift);
  check(config.diffusion.steps_offset >= 0, "[scheduler] steps_offset is {}, expected 0 or more",
        config.diffusion.steps_offset);
  if (config.dynamic_shift) {
    check_dynamic_shift(*config.dynamic_shift);
  }
  Schedule out = info.make(config, steps, tokens);
  set_limit(config, out.form);
  for (const float sigma : out.sigmas) {
    check(std::isfinite(sigma), "[scheduler] a noise level of {} steps is not finite", steps);
  }
  return out;
}

Mix Schedule::mix(int64_t evaluation) const {
  if (evaluation == size()) {
    return {};
  }
  const float sigma = sigmas.at(static_cast<size_t>(evaluation));
  if (explodes) {
    return {.signal = 1, .noise = sigma};
  }
  const Level level = level_of(config, sigma);
  return {.signal = static_cast<float>(level.alpha), .noise = static_cast<float>(level.sigma)};
}

TrainingTable euler_training_table(double shift, int64_t num_train_timesteps) {
  check(num_train_timesteps >= 1, "[scheduler] num_train_timesteps is {}, expected 1 or more",
        num_train_timesteps);
  TrainingTable out;
  // In float32 as in the reference: its rounding decides the timesteps' last bits.
  const auto train = static_cast<float>(num_train_timesteps);
  for (int64_t i = num_train_timesteps; i >= 1; --i) {
    const float sigma = shifted(static_cast<float>(i) / train, static_cast<float>(shift));
    out.sigmas.push_back(sigma);
    out.timesteps.push_back(sigma * train);
  }
  return out;
}

}  // namespace kinema::schedulers
