#include "kinema/sample/scheduler_config.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"
#include "kinema/schedulers/scheduler_class.h"

namespace kinema::sample {
namespace {

using io::Json;
using schedulers::Sampler;

/// A setting for which kinema supports one value; absent and null mean that value.
struct Fixed {
  std::string_view key;
  std::string_view value;  // as JSON
  /// True for settings of the network's training; the others are about sampling, and do not matter
  /// if another sampler is requested.
  bool is_learned = false;
};

const std::vector<Fixed>& fixed_settings(Sampler sampler) {
  static const std::vector<Fixed> unipc{
      {"prediction_type", "\"flow_prediction\""},
      {"use_flow_sigmas", "true"},
      {"solver_order", "2"},
      {"solver_type", "\"bh2\""},
      {"predict_x0", "true"},
      {"lower_order_final", "true"},
      {"final_sigmas_type", "\"zero\""},
      {"disable_corrector", "[]"},
      {"thresholding", "false"},
      {"use_dynamic_shifting", "false"},
      {"use_karras_sigmas", "false"},
      {"use_exponential_sigmas", "false"},
      {"use_beta_sigmas", "false"},
      {"shift_terminal", "null"},
  };
  static const std::vector<Fixed> flow_match{
      {"time_shift_type", "\"exponential\""},
      {"use_karras_sigmas", "false"},
      {"use_exponential_sigmas", "false"},
      {"use_beta_sigmas", "false"},
      {"invert_sigmas", "false", true},
      {"stochastic_sampling", "false"},
      {"shift_terminal", "null"},
  };
  static const std::vector<Fixed> euler{
      {"trained_betas", "null", true},
      {"interpolation_type", "\"linear\""},
      {"use_karras_sigmas", "false"},
      {"use_exponential_sigmas", "false"},
      {"use_beta_sigmas", "false"},
      {"sigma_min", "null"},
      {"sigma_max", "null"},
      {"timestep_type", "\"discrete\"", true},
      {"final_sigmas_type", "\"zero\""},
  };
  static const std::vector<Fixed> ddim{
      {"trained_betas", "null", true},
      {"thresholding", "false"},
  };
  switch (sampler) {
    case Sampler::UNIPC:
      return unipc;
    case Sampler::FLOW_MATCH_EULER:
      return flow_match;
    case Sampler::EULER:
      return euler;
    case Sampler::DDIM:
      return ddim;
  }
  fail("[scheduler] unknown sampler {}", static_cast<int>(sampler));
}

/// The value, or null if it is absent or null.
const Json* given(const Json& config, std::string_view key) {
  const Json* value = config.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

/// The first unsupported setting as a message; empty if there is none.
std::string unsupported_setting(const Json& config, Sampler sampler, bool learned) {
  for (const Fixed& fixed : fixed_settings(sampler)) {
    const Json* value = given(config, fixed.key);
    if (fixed.is_learned == learned && value != nullptr && value->dump(-1) != fixed.value) {
      return fmt::format("{} is {}, but only {} is supported", value->where(), value->brief(),
                         fixed.value);
    }
  }
  return "";
}

double number_or(const Json& config, std::string_view key, double otherwise) {
  const Json* value = given(config, key);
  return value == nullptr ? otherwise : value->as_number();
}

bool flag_or(const Json& config, std::string_view key, bool otherwise) {
  const Json* value = given(config, key);
  return value == nullptr ? otherwise : value->as_bool();
}

/// A value of an enumeration, by its reader.
template <typename T>
T word_or(const Json& config, std::string_view key, T (*read)(std::string_view), T otherwise) {
  const Json* value = given(config, key);
  return value == nullptr ? otherwise : read(value->as_string());
}

schedulers::Diffusion diffusion_of(const Json& config) {
  // The defaults of diffusers' classes, not of SDXL.
  schedulers::Diffusion out;
  out.beta_start = number_or(config, "beta_start", 0.0001);
  out.beta_end = number_or(config, "beta_end", 0.02);
  out.beta_schedule = word_or(config, "beta_schedule", schedulers::beta_schedule_from_string,
                              schedulers::BetaSchedule::LINEAR);
  out.prediction_type = word_or(config, "prediction_type", schedulers::prediction_from_string,
                                schedulers::Prediction::EPSILON);
  out.rescale_betas_zero_snr = flag_or(config, "rescale_betas_zero_snr", false);
  out.set_alpha_to_one = flag_or(config, "set_alpha_to_one", true);
  out.clip_sample.reset();
  if (const Json* clips = given(config, "clip_sample")) {
    out.clip_sample = clips->as_bool();
  }
  out.timestep_spacing.reset();
  if (const Json* spacing = given(config, "timestep_spacing")) {
    out.timestep_spacing = schedulers::spacing_from_string(spacing->as_string());
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
bool is_of_flow(const Json& config) {
  const Json* predicts = given(config, "prediction_type");
  const bool says_so =
      predicts != nullptr && predicts->is_string() && predicts->as_string() == "flow_prediction";
  return says_so || flag_or(config, "use_flow_sigmas", false) ||
         (given(config, "beta_start") == nullptr && given(config, "shift") != nullptr);
}

/// The settings of a configuration other than the sampler's.
schedulers::ScheduleConfig read_schedule(Sampler sampler, const Json& config) {
  schedulers::ScheduleConfig out;
  out.sampler = sampler;
  if (const Json* steps = config.find("num_train_timesteps"); steps != nullptr) {
    out.num_train_timesteps = steps->as_int();
    check(out.num_train_timesteps > 0 && out.num_train_timesteps <= 1'000'000,
          "[scheduler] {} is {}, expected 1 to 1000000", steps->where(), out.num_train_timesteps);
  }
  if (!schedulers::is_flow(sampler)) {
    out.shift = 1.0;
    out.diffusion = diffusion_of(config);
    return out;
  }
  const bool is_flow_shift = sampler == Sampler::UNIPC || given(config, "flow_shift") != nullptr;
  const char* key = is_flow_shift ? "flow_shift" : "shift";
  out.shift = number_or(config, key, 1.0);  // diffusers' default of both classes
  if (const Json* shift = given(config, key)) {
    check(out.shift > 0.0, "[scheduler] {} is {}, expected a number above 0", shift->where(),
          out.shift);
  }
  if (sampler == Sampler::FLOW_MATCH_EULER) {
    read_dynamic_shift(config, out);
  }
  return out;
}

schedulers::ScheduleConfig read_known(Sampler sampler, const Json& config) {
  const std::string learned = unsupported_setting(config, sampler, /*learned=*/true);
  check(learned.empty(), "[scheduler] {}", learned);
  schedulers::ScheduleConfig out = read_schedule(sampler, config);
  out.unsupported = unsupported_setting(config, sampler, /*learned=*/false);
  return out;
}

}  // namespace

schedulers::ScheduleConfig schedule_of(Sampler sampler, const Json& config) {
  schedulers::ScheduleConfig out = read_known(sampler, config);
  check(out.unsupported.empty(), "[scheduler] {}", out.unsupported);
  check(!schedulers::clips_sample(out),
        "[scheduler] {} has {}; only false is supported\n  set \"clip_sample\": false, as in other "
        "pipelines of latents",
        config.where(),
        out.diffusion.clip_sample ? "clip_sample: true"
                                  : "no clip_sample, which is true by default in DDIMScheduler");
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
  const Json* predicts = given(config, "prediction_type");
  const bool is_unipc_of_noise = known.name == schedulers::class_name(Sampler::UNIPC) &&
                                 predicts != nullptr && predicts->dump(-1) != "\"flow_prediction\"";
  if (schedulers::is_sampler(name) && !is_unipc_of_noise) {
    return read_known(schedulers::sampler_from_string(name), config);
  }
  // Solvers and sigmas are the other sampler's; other betas are part of the training.
  const Json* betas = given(config, "trained_betas");
  check(betas == nullptr, "[scheduler] {}trained_betas are not supported",
        betas == nullptr ? "" : betas->where() + ": ");
  using schedulers::Process;
  const bool is_flow = known.process == Process::FLOW ||
                       (known.process == Process::DIFFUSION_OR_FLOW && is_of_flow(config));
  schedulers::ScheduleConfig out =
      read_schedule(is_flow ? Sampler::FLOW_MATCH_EULER : Sampler::EULER, config);
  out.unknown_class = is_unipc_of_noise ? fmt::format("{} of {}", name, predicts->brief()) : name;
  return out;
}

schedulers::ScheduleConfig with_sampler(schedulers::ScheduleConfig schedule, Sampler sampler) {
  schedule.sampler = sampler;
  // Requesting UniPC does not make an unsupported prediction of a UniPC file supported.
  const bool is_same_class = schedule.unknown_class.starts_with(schedulers::class_name(sampler));
  if (!is_same_class) {
    schedule.unknown_class.clear();
  }
  schedule.unsupported.clear();
  return schedule;
}

Json scheduler_json(const schedulers::ScheduleConfig& schedule) {
  Json out = Json::object({{"_class_name", schedulers::class_name(schedule.sampler)},
                           {"num_train_timesteps", schedule.num_train_timesteps}});
  if (schedulers::is_flow(schedule.sampler)) {
    if (schedule.sampler == Sampler::UNIPC) {
      out.set("prediction_type", "flow_prediction");
      out.set("use_flow_sigmas", true);
    }
    out.set(schedule.sampler == Sampler::UNIPC ? "flow_shift" : "shift", schedule.shift);
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
  out.set("timestep_spacing", schedulers::name_of(schedulers::spacing_of(schedule)));
  out.set("steps_offset", d.steps_offset);
  out.set("set_alpha_to_one", d.set_alpha_to_one);  // for DDIM, which may be requested instead
  if (d.clip_sample) {
    out.set("clip_sample", *d.clip_sample);
  }
  return out;
}

}  // namespace kinema::sample
