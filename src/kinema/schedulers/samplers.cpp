#include "kinema/schedulers/samplers.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/schedulers/scheduler_class.h"

namespace kinema::schedulers {
namespace {

const std::vector<SamplerInfo>& table() {
  constexpr Noise kFlow = Noise::FLOW;
  constexpr Noise kDiffusion = Noise::DIFFUSION;
  constexpr Noise kEdm = Noise::EDM;
  constexpr Spacing kLeading = Spacing::LEADING;
  static const std::vector<SamplerInfo> all{
      {.sampler = Sampler::UNIPC,
       .word = "unipc",
       .class_name = "UniPCMultistepScheduler",
       .webui = "UniPC",
       .kinds = {kFlow, kDiffusion},
       .limits = true,
       .make = unipc},
      {.sampler = Sampler::FLOW_MATCH_EULER,
       .word = "flow_match_euler",
       .class_name = "FlowMatchEulerDiscreteScheduler",
       .webui = "Euler",
       .kinds = {kFlow},
       .make = flow_match_euler},
      {.sampler = Sampler::FLOW_MATCH_HEUN,
       .word = "flow_match_heun",
       .class_name = "FlowMatchHeunDiscreteScheduler",
       .webui = "Heun",
       .kinds = {kFlow},
       .make = flow_match_heun},
      {.sampler = Sampler::EULER,
       .word = "euler_discrete",
       .class_name = "EulerDiscreteScheduler",
       .webui = "Euler",
       .kinds = {kDiffusion, kEdm},
       .make = euler},
      {.sampler = Sampler::DDIM,
       .word = "ddim",
       .class_name = "DDIMScheduler",
       .webui = "DDIM",
       .kinds = {kDiffusion},
       .spacing = kLeading,
       .clips = true,
       .limits = true,
       .make = ddim},
      {.sampler = Sampler::EULER_ANCESTRAL,
       .word = "euler_ancestral",
       .class_name = "EulerAncestralDiscreteScheduler",
       .webui = "Euler a",
       .kinds = {kDiffusion, kEdm},
       .make = euler_ancestral},
      {.sampler = Sampler::HEUN,
       .word = "heun",
       .class_name = "HeunDiscreteScheduler",
       .webui = "Heun",
       .kinds = {kDiffusion, kEdm},
       .limits = true,
       .make = heun},
      {.sampler = Sampler::LMS,
       .word = "lms",
       .class_name = "LMSDiscreteScheduler",
       .webui = "LMS",
       .kinds = {kDiffusion, kEdm},
       .make = lms},
      {.sampler = Sampler::DPM_MULTISTEP,
       .word = "dpmpp_2m",
       .class_name = "DPMSolverMultistepScheduler",
       .webui = "DPM++ 2M",
       .kinds = {kDiffusion, kFlow, kEdm},
       .limits = true,
       .make = dpm_multistep},
      {.sampler = Sampler::DPM_SDE,
       .word = "dpmpp_sde",
       .class_name = "DPMSolverSDEScheduler",
       .webui = "DPM++ SDE",
       .kinds = {kDiffusion, kEdm},
       .make = dpm_sde},
      {.sampler = Sampler::DPM_SINGLESTEP,
       .word = "dpmpp_2s",
       .class_name = "DPMSolverSinglestepScheduler",
       .webui = "DPM++ 2S",
       .kinds = {kDiffusion, kFlow, kEdm},
       .limits = true,
       .make = dpm_singlestep},
      {.sampler = Sampler::DEIS,
       .word = "deis",
       .class_name = "DEISMultistepScheduler",
       .webui = "DEIS",
       .kinds = {kDiffusion, kFlow},
       .ends_at_sigma_min = true,
       .make = deis},
      {.sampler = Sampler::KDPM2,
       .word = "dpm_2",
       .class_name = "KDPM2DiscreteScheduler",
       .webui = "DPM2",
       .kinds = {kDiffusion, kEdm},
       .make = kdpm2},
      {.sampler = Sampler::KDPM2_ANCESTRAL,
       .word = "dpm_2_ancestral",
       .class_name = "KDPM2AncestralDiscreteScheduler",
       .webui = "DPM2 a",
       .kinds = {kDiffusion, kEdm},
       .make = kdpm2_ancestral},
      {.sampler = Sampler::DDPM,
       .word = "ddpm",
       .class_name = "DDPMScheduler",
       .webui = "DDPM",
       .kinds = {kDiffusion},
       .spacing = kLeading,
       .clips = true,
       .limits = true,
       .make = ddpm},
      {.sampler = Sampler::PNDM,
       .word = "pndm",
       .class_name = "PNDMScheduler",
       .webui = "PLMS",
       .kinds = {kDiffusion},
       .spacing = kLeading,
       .make = pndm},
      {.sampler = Sampler::LCM,
       .word = "lcm",
       .class_name = "LCMScheduler",
       .webui = "LCM",
       .kinds = {kDiffusion},
       .spacing = kLeading,
       .limits = true,
       .make = lcm},
      {.sampler = Sampler::TCD,
       .word = "tcd",
       .class_name = "TCDScheduler",
       .webui = "TCD",
       .kinds = {kDiffusion},
       .spacing = kLeading,
       .make = tcd},
  };
  return all;
}

/// Names other than a sampler's word, class and name in the webui: of ComfyUI, and of the webui for
/// a solver with settings.
struct OtherName {
  std::string_view name;
  Sampler sampler;
  Solver solver = {};
};

const std::vector<OtherName>& other_names() {
  static const std::vector<OtherName> all{
      {"dpmpp_2m_sde", Sampler::DPM_MULTISTEP, {.stochastic = true}},
      {"DPM++ 2M SDE", Sampler::DPM_MULTISTEP, {.stochastic = true}},
      {"dpmpp_2m_sde_heun", Sampler::DPM_MULTISTEP, {.heun = true, .stochastic = true}},
      {"DPM++ 2M SDE Heun", Sampler::DPM_MULTISTEP, {.heun = true, .stochastic = true}},
      {"dpmpp_3m_sde", Sampler::DPM_MULTISTEP, {.order = 3, .stochastic = true}},
      {"DPM++ 3M SDE", Sampler::DPM_MULTISTEP, {.order = 3, .stochastic = true}},
      {"dpmpp_2s_ancestral", Sampler::DPM_SINGLESTEP, {.ancestral = true}},
      {"DPM++ 2S a", Sampler::DPM_SINGLESTEP, {.ancestral = true}},
      {"uni_pc", Sampler::UNIPC, {.bh1 = true}},
      {"uni_pc_bh2", Sampler::UNIPC},
      {"PLMS", Sampler::PNDM, {.skip_prk_steps = true}},
  };
  return all;
}

std::string in_small_letters(std::string_view name) {
  std::string out(name);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

/// Cuts a word for noise levels off the end of a sampler's name: ` karras`, `_karras`.
Spread cut_levels(std::string& name) {
  for (const Spread each :
       {Spread::KARRAS, Spread::EXPONENTIAL, Spread::BETA, Spread::LU, Spread::AYS}) {
    const std::string_view word = name_of(each);
    if (name.size() > word.size() + 1 && name.ends_with(word) &&
        (name[name.size() - word.size() - 1] == ' ' ||
         name[name.size() - word.size() - 1] == '_')) {
      name.resize(name.size() - word.size() - 1);
      return each;
    }
  }
  return Spread::MODEL;
}

std::string known_names() {
  std::string out;
  for (const SamplerInfo& each : table()) {
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", each.word, each.class_name);
  }
  for (const OtherName& each : other_names()) {
    out += fmt::format(", {}", each.name);
  }
  return out;
}

}  // namespace

std::span<const SamplerInfo> samplers() { return table(); }

const SamplerInfo& info_of(Sampler sampler) {
  const auto found = std::ranges::find(table(), sampler, &SamplerInfo::sampler);
  check(found != table().end(), "[scheduler] unknown sampler {}", static_cast<int>(sampler));
  return *found;
}

NamedSampler sampler_from_string(std::string_view name, bool flow) {
  const std::string_view plain = without_flax(name);
  for (const SamplerInfo& each : table()) {
    if (plain == each.class_name) {
      return {.sampler = each.sampler};
    }
  }
  std::string small = in_small_letters(plain);
  if (constexpr std::string_view kGpu = "_gpu"; small.ends_with(kGpu)) {
    small.resize(small.size() - kGpu.size());  // ComfyUI's names for noise that a GPU draws
  }
  const Spread spread = cut_levels(small);
  if (small == "euler") {
    return {.sampler = flow ? Sampler::FLOW_MATCH_EULER : Sampler::EULER, .spread = spread};
  }
  if (small == "heun") {
    return {.sampler = flow ? Sampler::FLOW_MATCH_HEUN : Sampler::HEUN, .spread = spread};
  }
  for (const OtherName& each : other_names()) {
    if (small == in_small_letters(each.name)) {
      return {.sampler = each.sampler, .solver = each.solver, .spread = spread};
    }
  }
  for (const SamplerInfo& each : table()) {
    if (small == each.word || small == in_small_letters(each.webui)) {
      return {.sampler = each.sampler, .spread = spread};
    }
  }
  check(
      small != "karras" && small != "exponential" && small != "beta" && small != "lu" &&
          small != "ays",
      "[scheduler] `{}` is a spread of noise levels, not a sampler\n  set noise_levels={}, or add "
      "it to a sampler: scheduler=dpmpp_2m_{}",
      name, small, small);
  fail("[scheduler] `{}` is not a sampler\n  expected {}", name, known_names());
}

bool is_sampler(std::string_view name) {
  return std::ranges::any_of(
      table(), [&](const SamplerInfo& each) { return without_flax(name) == each.class_name; });
}

std::string_view webui_name(const ScheduleConfig& config) {
  const Solver& solver = config.solver;
  const auto is_same = [&](const OtherName& each) {
    return each.name.starts_with("DPM++") && each.sampler == config.sampler &&
           each.solver.stochastic == solver.stochastic && each.solver.heun == solver.heun &&
           each.solver.ancestral == solver.ancestral &&
           (each.solver.order == 3) == (solver.order == 3);
  };
  const auto found = std::ranges::find_if(other_names(), is_same);
  return found == other_names().end() ? info_of(config.sampler).webui : found->name;
}

std::string_view class_name(Sampler sampler) { return info_of(sampler).class_name; }

std::string_view class_name(const ScheduleConfig& config) {
  if (noise_of(config) != Noise::EDM) {
    return class_name(config.sampler);
  }
  return config.sampler == Sampler::EULER           ? "EDMEulerScheduler"
         : config.sampler == Sampler::DPM_MULTISTEP ? "EDMDPMSolverMultistepScheduler"
                                                    : class_name(config.sampler);
}

ScheduleConfig with_sampler(ScheduleConfig schedule, const NamedSampler& named) {
  const Noise noise = noise_of(schedule);
  const bool is_same = schedule.sampler == named.sampler && schedule.unknown_class.empty();
  const SamplerInfo& info = info_of(named.sampler);
  schedule.sampler = named.sampler;
  schedule.noise = noise == info.kinds.front() ? std::nullopt : std::optional(noise);
  schedule.unknown_class.clear();
  schedule.unsupported.clear();
  const Solver own = schedule.solver;
  schedule.solver = named.solver;
  schedule.solver.timestep_scaling = own.timestep_scaling;
  schedule.solver.original_inference_steps = own.original_inference_steps;
  schedule.levels = {.spread = named.spread,
                     .continuous = schedule.levels.continuous,
                     .ends_at_sigma_min = info.ends_at_sigma_min};
  schedule.limit = {};
  if (!is_flow_match(named.sampler)) {
    schedule.dynamic_shift.reset();
  }
  if (!is_same && info.clips && !schedule.diffusion.clip_sample) {
    schedule.unsupported = fmt::format(
        "{} clips samples unless the model's scheduler_config.json has clip_sample, and it does "
        "not\n  set \"clip_sample\": false there, as in other pipelines of latents",
        info.class_name);
  }
  return schedule;
}

}  // namespace kinema::schedulers
