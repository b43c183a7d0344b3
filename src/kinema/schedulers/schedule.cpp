#include "kinema/schedulers/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/schedulers/discrete.h"
#include "kinema/schedulers/scheduler_class.h"
#include "kinema/schedulers/unipc.h"

namespace kinema::schedulers {
namespace {

struct Named {
  Sampler sampler;
  std::string_view word;
  std::string_view class_name;
};
constexpr std::array<Named, 4> kSamplers{
    {{Sampler::UNIPC, "unipc", "UniPCMultistepScheduler"},
     {Sampler::FLOW_MATCH_EULER, "flow_match_euler", "FlowMatchEulerDiscreteScheduler"},
     {Sampler::EULER, "euler_discrete", "EulerDiscreteScheduler"},
     {Sampler::DDIM, "ddim", "DDIMScheduler"}}};

/// sigma -> s sigma / (1 + (s - 1) sigma): more of the steps at high noise.
template <typename T>
T shifted(T sigma, T shift) {
  return shift * sigma / (1 + (shift - 1) * sigma);
}

/// `count` values from `first` to `last`, both included.
std::vector<double> linspace(double first, double last, int64_t count) {
  std::vector<double> values(static_cast<size_t>(count), first);
  const double step = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0.0;
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<double>(i) * step + first;
  }
  if (count > 1) {
    values.back() = last;
  }
  return values;
}

Schedule unipc(const ScheduleConfig& config, int64_t steps) {
  const auto train = static_cast<double>(config.num_train_timesteps);
  std::vector<double> sigmas = linspace(1.0, 1.0 / train, steps + 1);
  sigmas.pop_back();

  for (double& sigma : sigmas) {
    sigma = shifted(sigma, config.shift);
  }
  // log(1 - sigma) must be finite: the reference moves the first sigma away from 1 by this much.
  constexpr double kOffOne = 1e-6;
  if (std::abs(sigmas.front() - 1.0) < kOffOne) {
    sigmas.front() -= kOffOne;
  }

  Schedule out{.config = config};
  for (const double sigma : sigmas) {
    out.sigmas.push_back(static_cast<float>(sigma));
    out.timesteps.push_back(static_cast<float>(static_cast<int64_t>(sigma * train)));
  }
  out.sigmas.push_back(0.0F);
  check(std::ranges::adjacent_find(out.sigmas, std::less_equal<>()) == out.sigmas.end(),
        "[scheduler] flow_shift {} leaves neighbours of {} steps the same noise level\n"
        "  take fewer steps or a smaller flow_shift",
        config.shift, steps);
  out.steps = unipc_steps(out.sigmas);
  return out;
}

/// Evenly spaced sigmas from 1 to 1/steps, shifted by the picture's size (Flux).
Schedule even_euler(const ScheduleConfig& config, int64_t steps, int64_t tokens) {
  Schedule out{.config = config};
  for (const double even : linspace(1.0, 1.0 / static_cast<double>(steps), steps)) {
    double sigma = static_cast<float>(even);
    if (config.dynamic_shift) {
      const double e = config.shift_of(tokens);
      sigma = e / (e + (1.0 / sigma - 1.0));
    } else {
      sigma = shifted(sigma, config.shift);
    }
    out.sigmas.push_back(static_cast<float>(sigma));
    out.timesteps.push_back(out.sigmas.back() * static_cast<float>(config.num_train_timesteps));
  }
  return out;
}

Schedule table_euler(const ScheduleConfig& config, int64_t steps) {
  const TrainingTable table = euler_training_table(config.shift, config.num_train_timesteps);
  const auto train = static_cast<double>(config.num_train_timesteps);
  // The range is already shifted; the reference shifts its values again.
  const std::vector<double> timesteps =
      linspace(static_cast<double>(table.sigmas.front()) * train,
               static_cast<double>(table.sigmas.back()) * train, steps);

  Schedule out{.config = config};
  for (const double t : timesteps) {
    const auto sigma = static_cast<float>(shifted(t / train, config.shift));
    out.sigmas.push_back(sigma);
    out.timesteps.push_back(sigma * static_cast<float>(train));
  }
  return out;
}

Schedule flow_match_euler(const ScheduleConfig& config, int64_t steps, int64_t tokens) {
  check(!config.dynamic_shift || (config.even_sigmas && tokens > 0),
        "[scheduler] a dynamic shift needs the picture's size");
  Schedule out =
      config.even_sigmas ? even_euler(config, steps, tokens) : table_euler(config, steps);
  out.sigmas.push_back(0.0F);
  for (int64_t i = 0; i < steps; ++i) {
    out.steps.push_back(
        {.data_v = -out.sigmas[i], .from_c = 1, .from_v = out.sigmas[i + 1] - out.sigmas[i]});
  }
  return out;
}

}  // namespace

bool is_flow(Sampler sampler) {
  return sampler == Sampler::UNIPC || sampler == Sampler::FLOW_MATCH_EULER;
}

Sampler sampler_from_string(std::string_view name, bool flow) {
  const std::string_view plain = without_flax(name);
  if (plain == "euler") {
    return flow ? Sampler::FLOW_MATCH_EULER : Sampler::EULER;
  }
  std::string known;
  for (const Named& each : kSamplers) {
    if (plain == each.word || plain == each.class_name) {
      return each.sampler;
    }
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", each.word, each.class_name);
  }
  fail("[scheduler] `{}` is not a sampler\n  expected {}", name, known);
}

bool is_sampler(std::string_view name) {
  const std::string_view plain = without_flax(name);
  return plain == "euler" || std::ranges::any_of(kSamplers, [&](const Named& each) {
           return plain == each.word || plain == each.class_name;
         });
}

Spacing spacing_of(const ScheduleConfig& config) {
  return config.diffusion.timestep_spacing.value_or(
      config.sampler == Sampler::EULER ? Spacing::LINSPACE : Spacing::LEADING);
}

bool clips_sample(const ScheduleConfig& config) {
  return config.sampler == Sampler::DDIM && config.diffusion.clip_sample.value_or(true);
}

std::string other_samplers(const ScheduleConfig& config) {
  if (is_flow(config.sampler)) {
    return "euler or unipc";
  }
  return config.diffusion.clip_sample.value_or(true) ? "euler" : "euler or ddim";
}

void check_class(const ScheduleConfig& config) {
  const std::string others = other_samplers(config);
  check(config.unknown_class.empty(),
        "[scheduler] the model's scheduler is a `{}`, which is not supported\n  use scheduler={}, "
        "which samples models of this kind",
        config.unknown_class, others);
  check(config.unsupported.empty(), "[scheduler] {}\n  use scheduler={}, which does not need it",
        config.unsupported, others);
  check(
      !clips_sample(config),
      "[scheduler] DDIMScheduler clips samples unless the model's scheduler_config.json has "
      "clip_sample: false, and it does not; only false is supported\n  set \"clip_sample\": false "
      "there, as in other pipelines of latents, or use scheduler=euler");
}

std::string_view class_name(Sampler sampler) {
  for (const Named& each : kSamplers) {
    if (each.sampler == sampler) {
      return each.class_name;
    }
  }
  fail("[scheduler] unknown sampler {}", static_cast<int>(sampler));
}

double DynamicShift::mu(int64_t tokens) const {
  const double slope = (max - base) / static_cast<double>(max_tokens - base_tokens);
  return base + slope * static_cast<double>(tokens - base_tokens);
}

double ScheduleConfig::shift_of(int64_t tokens) const {
  return dynamic_shift ? std::exp(dynamic_shift->mu(tokens)) : shift;
}

std::vector<float> StepCoefficients::values() const {
  return {input,      data_x,     data_v, correct_x, correct_previous, correct_m0,
          correct_m1, correct_m2, from_c, from_m0,   from_m1,          from_v};
}

Schedule make_schedule(const ScheduleConfig& config, int64_t num_inference_steps, int64_t tokens) {
  check_class(config);
  check(num_inference_steps >= 1 && num_inference_steps <= config.num_train_timesteps,
        "[scheduler] num_inference_steps is {}, expected 1 to {}", num_inference_steps,
        config.num_train_timesteps);
  check(std::isfinite(config.shift) && config.shift > 0.0,
        "[scheduler] flow_shift is {}, expected a number above 0", config.shift);
  if (const std::optional<DynamicShift>& shift = config.dynamic_shift) {
    check(shift->max_tokens > shift->base_tokens && shift->base_tokens > 0 &&
              std::isfinite(shift->base) && std::isfinite(shift->max),
          "[scheduler] the shift goes from {} at {} tokens to {} at {}: base and max sequence "
          "length must differ",
          shift->base, shift->base_tokens, shift->max, shift->max_tokens);
  }
  switch (config.sampler) {
    case Sampler::UNIPC:
      return unipc(config, num_inference_steps);
    case Sampler::FLOW_MATCH_EULER:
      return flow_match_euler(config, num_inference_steps, tokens);
    case Sampler::EULER:
    case Sampler::DDIM:
      return discrete_schedule(config, num_inference_steps);
  }
  fail("[scheduler] unknown sampler {}", static_cast<int>(config.sampler));
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
