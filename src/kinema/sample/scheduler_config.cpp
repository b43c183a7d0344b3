#include "kinema/sample/scheduler_config.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"
#include "kinema/sample/solver_settings.h"
#include "kinema/schedulers/samplers.h"
#include "kinema/schedulers/scheduler_class.h"

namespace kinema::sample {
namespace {

using io::Json;
using schedulers::Sampler;

/// The value, or null if it is absent or null.
const Json* given(const Json& config, std::string_view key) {
  const Json* value = config.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

double number_or(const Json& config, std::string_view key, double otherwise) {
  const Json* value = given(config, key);
  return value == nullptr ? otherwise : value->as_number();
}

bool flag_or(const Json& config, std::string_view key, bool otherwise) {
  const Json* value = given(config, key);
  return value == nullptr ? otherwise : value->as_bool();
}

std::vector<double> numbers_of(const Json& config, std::string_view key) {
  std::vector<double> out;
  if (const Json* values = given(config, key)) {
    for (const Json& each : values->items()) {
      out.push_back(each.as_number());
    }
  }
  return out;
}

bool predicts_flow(const Json& config) {
  const Json* predicts = given(config, "prediction_type");
  return predicts != nullptr && predicts->is_string() && predicts->as_string() == "flow_prediction";
}

/// A value of an enumeration, by its reader.
template <typename T>
T word_or(const Json& config, std::string_view key, T (*read)(std::string_view), T otherwise) {
  const Json* value = given(config, key);
  return value == nullptr ? otherwise : read(value->as_string());
}

/// The training's settings.
schedulers::Diffusion diffusion_of(Sampler sampler, const Json& config) {
  // The defaults of diffusers' classes, not of SDXL.
  const bool is_distilled = sampler == Sampler::LCM || sampler == Sampler::TCD;
  const bool is_latent = is_distilled || sampler == Sampler::HEUN || sampler == Sampler::DPM_SDE ||
                         sampler == Sampler::KDPM2 || sampler == Sampler::KDPM2_ANCESTRAL;
  schedulers::Diffusion out;
  out.beta_start = number_or(config, "beta_start", is_latent ? 0.00085 : 0.0001);
  out.beta_end = number_or(config, "beta_end", is_latent ? 0.012 : 0.02);
  out.beta_schedule = word_or(
      config, "beta_schedule", schedulers::beta_schedule_from_string,
      is_distilled ? schedulers::BetaSchedule::SCALED_LINEAR : schedulers::BetaSchedule::LINEAR);
  out.trained_betas = numbers_of(config, "trained_betas");
  out.prediction_type = schedulers::Prediction::EPSILON;
  if (const Json* predicts = given(config, "prediction_type");
      predicts != nullptr && !predicts_flow(config)) {
    out.prediction_type = schedulers::prediction_from_string(predicts->as_string());
  }
  out.rescale_betas_zero_snr = flag_or(config, "rescale_betas_zero_snr", false);
  out.set_alpha_to_one = flag_or(config, "set_alpha_to_one", sampler != Sampler::PNDM);
  out.clip_sample.reset();
  if (const Json* clips = given(config, "clip_sample")) {
    out.clip_sample = clips->as_bool();
  }
  out.timestep_spacing.reset();
  if (const Json* spacing = given(config, "timestep_spacing")) {
    if (spacing->as_string() != "ays") {
      out.timestep_spacing = schedulers::spacing_from_string(spacing->as_string());
    }
  }
  if (const Json* offset = given(config, "steps_offset")) {
    out.steps_offset = offset->as_int();
    check(out.steps_offset >= 0 && out.steps_offset <= 1000,
          "[scheduler] {} is {}, expected 0 to 1000", offset->where(), out.steps_offset);
  } else {
    out.steps_offset = 0;
  }
  return out;
}

void read_dynamic_shift(const Json& config, schedulers::ScheduleConfig& out) {
  if (!flag_or(config, "use_dynamic_shifting", false)) {
    return;
  }
  schedulers::DynamicShift shift;
  shift.base = number_or(config, "base_shift", shift.base);
  shift.max = number_or(config, "max_shift", shift.max);
  if (const Json* tokens = given(config, "base_image_seq_len")) {
    shift.base_tokens = tokens->as_int();
  }
  if (const Json* tokens = given(config, "max_image_seq_len")) {
    shift.max_tokens = tokens->as_int();
  }
  out.dynamic_shift = shift;
}

/// diffusers writes infinities, which JSON does not have (`lambda_min_clipped` of DPMSolver): they
/// are replaced by null, padded to the same length, so that errors have the right positions.
std::string without_infinities(std::string_view text) {
  std::string out(text);
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      in_string = !in_string;
    } else if (in_string) {
      i += text[i] == '\\' ? 1 : 0;
    } else {
      for (const std::string_view word : {"-Infinity", "Infinity"}) {
        if (text.substr(i).starts_with(word)) {
          out.replace(i, word.size(), fmt::format("{:<{}}", "null", word.size()));
          i += word.size() - 1;
          break;
        }
      }
    }
  }
  return out;
}

/// True if a configuration of a class for both is of a rectified flow.
bool is_of_flow(Sampler sampler, const Json& config) {
  if (predicts_flow(config) || flag_or(config, "use_flow_sigmas", false)) {
    return true;
  }
  const bool has_betas = given(config, "beta_start") != nullptr;
  if (sampler == Sampler::UNIPC) {
    return !has_betas && given(config, "prediction_type") == nullptr &&
           given(config, "use_flow_sigmas") == nullptr;
  }
  return !has_betas && given(config, "shift") != nullptr;
}

schedulers::Noise noise_in(const schedulers::SchedulerClass& of, Sampler sampler,
                           const Json& config) {
  using schedulers::Process;
  return of.process == Process::EDM    ? schedulers::Noise::EDM
         : of.process == Process::FLOW ? schedulers::Noise::FLOW
         : of.process == Process::DIFFUSION_OR_FLOW && is_of_flow(sampler, config)
             ? schedulers::Noise::FLOW
             : schedulers::Noise::DIFFUSION;
}

/// The settings of a configuration other than the sampler's.
schedulers::ScheduleConfig read_training(Sampler sampler, schedulers::Noise noise,
                                         const Json& config) {
  schedulers::ScheduleConfig out;
  out.sampler = sampler;
  if (schedulers::info_of(sampler).kinds.front() != noise) {
    out.noise = noise;
  }
  if (const Json* steps = config.find("num_train_timesteps"); steps != nullptr) {
    out.num_train_timesteps = steps->as_int();
    check(out.num_train_timesteps > 0 && out.num_train_timesteps <= 1'000'000,
          "[scheduler] {} is {}, expected 1 to 1000000", steps->where(), out.num_train_timesteps);
  }
  if (noise != schedulers::Noise::FLOW) {
    out.shift = 1.0;
    out.diffusion = diffusion_of(sampler, config);
    if (noise == schedulers::Noise::EDM) {
      read_edm(config, out.edm);
    }
    return out;
  }
  const bool is_flow_shift = sampler == Sampler::UNIPC || given(config, "flow_shift") != nullptr;
  const char* key = is_flow_shift ? "flow_shift" : "shift";
  out.shift = number_or(config, key, 1.0);  // diffusers' default of both classes
  if (const Json* shift = given(config, key)) {
    check(out.shift > 0.0, "[scheduler] {} is {}, expected a number above 0", shift->where(),
          out.shift);
  }
  const Json* predicts = given(config, "prediction_type");
  if (!schedulers::is_flow_match(sampler) && predicts != nullptr && !predicts_flow(config)) {
    out.flow_predicts = schedulers::prediction_from_string(predicts->as_string());
  }
  read_dynamic_shift(config, out);
  return out;
}

schedulers::ScheduleConfig read_known(Sampler sampler, schedulers::Noise noise,
                                      const Json& config) {
  schedulers::ScheduleConfig out = read_training(sampler, noise, config);
  if (const Json* spacing = given(config, "timestep_spacing");
      spacing != nullptr && spacing->as_string() == "ays") {
    out.levels.spread = schedulers::Spread::AYS;
  }
  set_solver_defaults(out);
  read_solver_settings(config, out);
  const bool has_levels_of_betas =
      out.levels.spread != schedulers::Spread::MODEL || out.levels.ends_at_sigma_min;
  if (noise == schedulers::Noise::FLOW && !schedulers::is_flow_match(sampler) &&
      has_levels_of_betas) {
    out.diffusion = diffusion_of(sampler, config);
  }
  return out;
}

}  // namespace

schedulers::ScheduleConfig schedule_of(Sampler sampler, const Json& config) {
  const schedulers::SchedulerClass& known =
      *schedulers::scheduler_class(schedulers::class_name(sampler));
  schedulers::ScheduleConfig out = read_known(sampler, noise_in(known, sampler, config), config);
  check(out.unsupported.empty(), "[scheduler] {}", out.unsupported);
  return out;
}

Json scheduler_file(const std::filesystem::path& file, std::string_view class_name) {
  Json out = Json::parse(without_infinities(io::read_text(file, size_t{1} << 20)), file.string());
  if (!class_name.empty()) {
    out.at("_class_name");  // a file without it is not a scheduler's
    out.set("_class_name", class_name);
  }
  return out;
}

schedulers::ScheduleConfig read_scheduler_config(const std::filesystem::path& file,
                                                 std::string_view class_name) {
  const Json config = scheduler_file(file, class_name);
  const std::string& name = config.at("_class_name").as_string();
  const schedulers::SchedulerClass& known =
      schedulers::supported_scheduler_class(name, file.string());
  using schedulers::Noise;
  if (known.sampler) {
    return read_known(*known.sampler, noise_in(known, *known.sampler, config), config);
  }
  // Solvers and sigmas are the other sampler's.
  const bool is_flow = noise_in(known, Sampler::DPM_MULTISTEP, config) == Noise::FLOW;
  schedulers::ScheduleConfig out =
      read_training(is_flow ? Sampler::FLOW_MATCH_EULER : Sampler::EULER,
                    is_flow ? Noise::FLOW : Noise::DIFFUSION, config);
  out.unknown_class = name;
  return out;
}

schedulers::ScheduleConfig with_sampler(schedulers::ScheduleConfig schedule, Sampler sampler) {
  return schedulers::with_sampler(std::move(schedule), {.sampler = sampler});
}

Json scheduler_json(const schedulers::ScheduleConfig& schedule) {
  Json out = Json::object({{"_class_name", schedulers::class_name(schedule)},
                           {"num_train_timesteps", schedule.num_train_timesteps}});
  write_solver_settings(schedule, out);
  if (schedulers::is_flow(schedule)) {
    const bool is_solver = !schedulers::is_flow_match(schedule.sampler);
    if (is_solver) {
      out.set("prediction_type", schedule.flow_predicts
                                     ? schedulers::name_of(*schedule.flow_predicts)
                                     : std::string_view("flow_prediction"));
      out.set("use_flow_sigmas", true);
    }
    out.set(is_solver ? "flow_shift" : "shift", schedule.shift);
    if (!(schedule.diffusion == schedulers::Diffusion{})) {
      out.set("beta_start", schedule.diffusion.beta_start);
      out.set("beta_end", schedule.diffusion.beta_end);
      out.set("beta_schedule", schedulers::name_of(schedule.diffusion.beta_schedule));
    }
    if (const auto& shift = schedule.dynamic_shift) {
      out.set("use_dynamic_shifting", true);
      out.set("base_shift", shift->base);
      out.set("max_shift", shift->max);
      out.set("base_image_seq_len", shift->base_tokens);
      out.set("max_image_seq_len", shift->max_tokens);
    }
    return out;
  }
  const schedulers::Diffusion& d = schedule.diffusion;
  out.set("beta_start", d.beta_start);
  out.set("beta_end", d.beta_end);
  out.set("beta_schedule", schedulers::name_of(d.beta_schedule));
  out.set("prediction_type", schedulers::name_of(d.prediction_type));
  out.set("rescale_betas_zero_snr", d.rescale_betas_zero_snr);
  out.set("timestep_spacing", schedule.levels.spread == schedulers::Spread::AYS
                                  ? name_of(schedule.levels.spread)
                                  : name_of(schedulers::spacing_of(schedule)));
  out.set("steps_offset", d.steps_offset);
  out.set("set_alpha_to_one", d.set_alpha_to_one);  // for DDIM, which may be requested instead
  if (d.clip_sample) {
    out.set("clip_sample", *d.clip_sample);
  }
  if (!d.trained_betas.empty()) {
    out.set("trained_betas", Json::array({d.trained_betas.begin(), d.trained_betas.end()}));
  }
  return out;
}

}  // namespace kinema::sample
