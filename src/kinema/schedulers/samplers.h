#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/schedulers/schedule.h"

/// The table of samplers, and their names in diffusers, ComfyUI and AUTOMATIC1111's webui.
namespace kinema::schedulers {

/// A sampler: what it can sample, and the function that computes its tables.
struct SamplerInfo {
  Sampler sampler;
  std::string_view word;                // for the key `scheduler`
  std::string_view class_name;          // of diffusers
  std::string_view webui;               // in AUTOMATIC1111's webui, or as it would be called there
  std::vector<Noise> kinds;             // what it samples; the first is ScheduleConfig's default
  Spacing spacing = Spacing::LINSPACE;  // the default of the class
  bool clips = false;                   // the class clips unless told otherwise
  bool limits = false;                  // clip_sample and thresholding apply
  bool ends_at_sigma_min = false;       // the class has no final_sigmas_type, and does not end at 0
  /// Fills sigmas, timesteps, steps and initial_scale for a number of steps and of the picture's
  /// tokens.
  Schedule (*make)(const ScheduleConfig& config, int64_t steps, int64_t tokens);
};

/// All of them.
std::span<const SamplerInfo> samplers();
const SamplerInfo& info_of(Sampler sampler);

/// What a name stands for: `dpmpp_2m_sde`, `DPM++ 2M SDE Karras`, `DPMSolverMultistepScheduler`.
struct NamedSampler {
  Sampler sampler;
  Solver solver = {};
  Spread spread = Spread::MODEL;
};

/// `unipc`, `euler`, `ddim`, ..., the names of ComfyUI and of AUTOMATIC1111's webui, with a word
/// for the levels after it (`Karras`, `_karras`) or without, and diffusers' class names, with or
/// without `Flax`; if `flow`, `euler` and `heun` are FLOW_MATCH_EULER and FLOW_MATCH_HEUN. Throws
/// an Error that lists the names for another one.
NamedSampler sampler_from_string(std::string_view name, bool flow = true);
/// True for the name of a diffusers class with a sampler.
bool is_sampler(std::string_view name);
/// `UniPCMultistepScheduler`, `FlowMatchEulerDiscreteScheduler`, ...
std::string_view class_name(Sampler sampler);
/// The sampler's name in AUTOMATIC1111's webui: `Euler a`, `DPM++ 2M SDE`, ...
std::string_view webui_name(const ScheduleConfig& config);
/// The class in diffusers that samples the configuration: another one for EDM.
std::string_view class_name(const ScheduleConfig& config);

/// The schedule with the named sampler; the levels' settings are the name's.
ScheduleConfig with_sampler(ScheduleConfig schedule, const NamedSampler& named);

// The samplers' tables, a file each.
Schedule unipc(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule flow_match_euler(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule flow_match_heun(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule euler(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule euler_ancestral(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule heun(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule lms(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule dpm_multistep(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule dpm_sde(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule dpm_singlestep(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule dpm_2s_ancestral(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule deis(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule kdpm2(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule kdpm2_ancestral(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule ddim(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule ddpm(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule pndm(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule lcm(const ScheduleConfig& config, int64_t steps, int64_t tokens);
Schedule tcd(const ScheduleConfig& config, int64_t steps, int64_t tokens);

}  // namespace kinema::schedulers
