#include "kinema/sample/solver_settings.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::sample {
namespace {

using io::Json;
using schedulers::Noise;
using schedulers::Sampler;
using schedulers::ScheduleConfig;
using schedulers::Spread;

/// A key of a scheduler_config.json. `write` returns nothing for the default.
struct Setting {
  std::string_view key;
  void (*read)(ScheduleConfig& to, const Json& value);
  std::optional<Json> (*write)(const ScheduleConfig& from);
};

template <typename T>
std::optional<Json> unless(const T& value, const T& usual) {
  return value == usual ? std::nullopt : std::optional<Json>(Json(value));
}

std::optional<Json> if_given(const std::optional<double>& value) {
  return value ? std::optional<Json>(*value) : std::nullopt;
}

void set_spread(ScheduleConfig& to, const Json& value, Spread spread) {
  if (!value.as_bool()) {
    return;
  }
  check(to.levels.spread == Spread::MODEL, "[scheduler] {} is true, but `{}` is set already",
        value.where(), name_of(to.levels.spread));
  to.levels.spread = spread;
}

template <Spread kSpread>
Setting spread_setting(std::string_view key) {
  return {key, [](ScheduleConfig& to, const Json& value) { set_spread(to, value, kSpread); },
          [](const ScheduleConfig& from) { return unless(from.levels.spread == kSpread, false); }};
}

/// One of the words, or an Error.
std::string_view one_of(const Json& value, std::initializer_list<std::string_view> words) {
  std::string known;
  for (const std::string_view word : words) {
    if (value.is_string() && value.as_string() == word) {
      return word;
    }
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", word);
  }
  fail("[scheduler] {} is {}, but only {} {} supported", value.where(), value.brief(), known,
       words.size() == 1 ? "is" : "are");
}

void read_algorithm(ScheduleConfig& to, const Json& value) {
  const std::string_view word =
      one_of(value, {"dpmsolver++", "sde-dpmsolver++", "dpmsolver", "sde-dpmsolver", "deis"});
  to.solver.stochastic = word.starts_with("sde-");
  to.solver.predicts_noise = word.ends_with("dpmsolver");
}

std::optional<Json> write_algorithm(const ScheduleConfig& from) {
  const auto& solver = from.solver;
  return unless(fmt::format("{}dpmsolver{}", solver.stochastic ? "sde-" : "",
                            solver.predicts_noise ? "" : "++"),
                std::string("dpmsolver++"));
}

/// diffusers takes another class's types for the class's own default.
void read_solver_type(ScheduleConfig& to, const Json& value) {
  const std::string_view word = one_of(value, {"midpoint", "heun", "logrho", "bh1", "bh2"});
  to.solver.bh1 = to.sampler == Sampler::UNIPC && word == "bh1";
  to.solver.heun = to.sampler != Sampler::UNIPC && word == "heun";
}

std::optional<Json> write_solver_type(const ScheduleConfig& from) {
  return from.solver.bh1    ? std::optional<Json>("bh1")
         : from.solver.heun ? std::optional<Json>("heun")
                            : std::nullopt;
}

/// The default of lower_order_final.
bool lowers_order(Sampler sampler) { return sampler != Sampler::DPM_SINGLESTEP; }

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all{
      {"solver_order",
       [](ScheduleConfig& to, const Json& value) { to.solver.order = value.as_int(); },
       [](const ScheduleConfig& from) { return unless<int64_t>(from.solver.order, 2); }},
      {"solver_type", read_solver_type, write_solver_type},
      {"algorithm_type", read_algorithm, write_algorithm},
      {"predict_x0",
       [](ScheduleConfig& to, const Json& value) { to.solver.predicts_noise = !value.as_bool(); },
       [](const ScheduleConfig& from) { return unless(!from.solver.predicts_noise, true); }},
      {"lower_order_final",
       [](ScheduleConfig& to, const Json& value) { to.solver.lower_order_final = value.as_bool(); },
       [](const ScheduleConfig& from) {
         return unless(from.solver.lower_order_final, lowers_order(from.sampler));
       }},
      {"euler_at_final",
       [](ScheduleConfig& to, const Json& value) { to.solver.euler_at_final = value.as_bool(); },
       [](const ScheduleConfig& from) { return unless(from.solver.euler_at_final, false); }},
      {"disable_corrector",
       [](ScheduleConfig& to, const Json& value) { to.solver.disable_corrector = value.as_ints(); },
       [](const ScheduleConfig& from) {
         std::vector<Json> steps(from.solver.disable_corrector.begin(),
                                 from.solver.disable_corrector.end());
         return steps.empty() ? std::nullopt : std::optional<Json>(Json::array(std::move(steps)));
       }},
      {"ancestral",  // kinema's own: diffusers does not have this sampler
       [](ScheduleConfig& to, const Json& value) { to.solver.ancestral = value.as_bool(); },
       [](const ScheduleConfig& from) { return unless(from.solver.ancestral, false); }},
      {"skip_prk_steps",
       [](ScheduleConfig& to, const Json& value) { to.solver.skip_prk_steps = value.as_bool(); },
       [](const ScheduleConfig& from) { return unless(from.solver.skip_prk_steps, false); }},
      {"stochastic_sampling",
       [](ScheduleConfig& to, const Json& value) { to.solver.stochastic = value.as_bool(); },
       [](const ScheduleConfig& from) { return unless(from.solver.stochastic, false); }},
      {"timestep_scaling",
       [](ScheduleConfig& to, const Json& value) {
         to.solver.timestep_scaling = value.as_number();
       },
       [](const ScheduleConfig& from) { return unless(from.solver.timestep_scaling, 10.0); }},
      {"original_inference_steps",
       [](ScheduleConfig& to, const Json& value) {
         to.solver.original_inference_steps = value.as_int();
       },
       [](const ScheduleConfig& from) {
         return unless<int64_t>(from.solver.original_inference_steps, 50);
       }},
      {"variance_type",
       [](ScheduleConfig& to, const Json& value) {
         to.solver.variance = schedulers::variance_from_string(value.as_string());
       },
       [](const ScheduleConfig& from) {
         return unless(std::string(name_of(from.solver.variance)), std::string("fixed_small"));
       }},
      spread_setting<Spread::KARRAS>("use_karras_sigmas"),
      spread_setting<Spread::EXPONENTIAL>("use_exponential_sigmas"),
      spread_setting<Spread::BETA>("use_beta_sigmas"),
      spread_setting<Spread::LU>("use_lu_lambdas"),
      {"interpolation_type",
       [](ScheduleConfig& to, const Json& value) {
         to.levels.log_linear = one_of(value, {"linear", "log_linear"}) == "log_linear";
       },
       [](const ScheduleConfig& from) {
         return unless(std::string(from.levels.log_linear ? "log_linear" : "linear"),
                       std::string("linear"));
       }},
      {"timestep_type",
       [](ScheduleConfig& to, const Json& value) {
         to.levels.continuous = one_of(value, {"discrete", "continuous"}) == "continuous";
       },
       [](const ScheduleConfig& from) {
         return unless(std::string(from.levels.continuous ? "continuous" : "discrete"),
                       std::string("discrete"));
       }},
      {"final_sigmas_type",
       [](ScheduleConfig& to, const Json& value) {
         to.levels.ends_at_sigma_min = one_of(value, {"zero", "sigma_min"}) == "sigma_min";
       },
       [](const ScheduleConfig& from) {
         return unless(std::string(from.levels.ends_at_sigma_min ? "sigma_min" : "zero"),
                       std::string("zero"));
       }},
      {"sigma_min",
       [](ScheduleConfig& to, const Json& value) { to.levels.sigma_min = value.as_number(); },
       [](const ScheduleConfig& from) { return if_given(from.levels.sigma_min); }},
      {"sigma_max",
       [](ScheduleConfig& to, const Json& value) { to.levels.sigma_max = value.as_number(); },
       [](const ScheduleConfig& from) { return if_given(from.levels.sigma_max); }},
      {"lambda_min_clipped",
       [](ScheduleConfig& to, const Json& value) {
         to.levels.lambda_min_clipped = value.as_number();
       },
       [](const ScheduleConfig& from) { return if_given(from.levels.lambda_min_clipped); }},
      {"shift_terminal",
       [](ScheduleConfig& to, const Json& value) {
         to.levels.shift_terminal = value.as_number();
         check(*to.levels.shift_terminal >= 0.0 && *to.levels.shift_terminal < 1.0,
               "[scheduler] {} is {}, expected a number from 0 and below 1", value.where(),
               *to.levels.shift_terminal);
       },
       [](const ScheduleConfig& from) { return if_given(from.levels.shift_terminal); }},
      {"time_shift_type",
       [](ScheduleConfig& to, const Json& value) {
         to.levels.linear_shift = one_of(value, {"exponential", "linear"}) == "linear";
       },
       [](const ScheduleConfig& from) {
         return unless(std::string(from.levels.linear_shift ? "linear" : "exponential"),
                       std::string("exponential"));
       }},
      {"invert_sigmas",
       [](ScheduleConfig& to, const Json& value) { to.levels.inverted = value.as_bool(); },
       [](const ScheduleConfig& from) { return unless(from.levels.inverted, false); }},
      {"thresholding",
       [](ScheduleConfig& to, const Json& value) { to.limit.threshold = value.as_bool(); },
       [](const ScheduleConfig& from) { return unless(from.limit.threshold, false); }},
      {"dynamic_thresholding_ratio",
       [](ScheduleConfig& to, const Json& value) { to.limit.ratio = value.as_number(); },
       [](const ScheduleConfig& from) { return unless(from.limit.ratio, 0.995); }},
      {"sample_max_value",
       [](ScheduleConfig& to, const Json& value) { to.limit.max = value.as_number(); },
       [](const ScheduleConfig& from) { return unless(from.limit.max, 1.0); }},
      {"clip_sample_range",
       [](ScheduleConfig& to, const Json& value) { to.limit.range = value.as_number(); },
       [](const ScheduleConfig& from) { return unless(from.limit.range, 1.0); }},
      {"solver_p",
       [](ScheduleConfig& /*to*/, const Json& value) {
         fail("[scheduler] {} is {}, but only null is supported", value.where(), value.brief());
       },
       [](const ScheduleConfig& /*from*/) { return std::optional<Json>(); }},
  };
  return all;
}

/// The keys that a class has in addition to those of the training.
std::string_view keys_of(const ScheduleConfig& schedule) {
  if (noise_of(schedule) == Noise::EDM) {
    return "solver_order solver_type algorithm_type lower_order_final euler_at_final "
           "final_sigmas_type thresholding dynamic_thresholding_ratio sample_max_value";
  }
  switch (schedule.sampler) {
    case Sampler::UNIPC:
      return "solver_order solver_type predict_x0 lower_order_final disable_corrector solver_p "
             "use_karras_sigmas use_exponential_sigmas use_beta_sigmas final_sigmas_type sigma_min "
             "sigma_max shift_terminal time_shift_type thresholding dynamic_thresholding_ratio "
             "sample_max_value";
    case Sampler::FLOW_MATCH_EULER:
      return "invert_sigmas shift_terminal use_karras_sigmas use_exponential_sigmas "
             "use_beta_sigmas time_shift_type stochastic_sampling";
    case Sampler::EULER:
      return "interpolation_type use_karras_sigmas use_exponential_sigmas use_beta_sigmas "
             "sigma_min "
             "sigma_max timestep_type final_sigmas_type";
    case Sampler::DDIM:
      return "thresholding dynamic_thresholding_ratio sample_max_value clip_sample_range";
    case Sampler::DDPM:
      return "variance_type thresholding dynamic_thresholding_ratio sample_max_value "
             "clip_sample_range";
    case Sampler::DPM_SINGLESTEP:
      return "solver_order solver_type algorithm_type lower_order_final use_karras_sigmas "
             "use_exponential_sigmas use_beta_sigmas final_sigmas_type lambda_min_clipped "
             "thresholding dynamic_thresholding_ratio sample_max_value time_shift_type ancestral";
    case Sampler::DEIS:
      return "solver_order lower_order_final use_karras_sigmas use_exponential_sigmas "
             "use_beta_sigmas thresholding dynamic_thresholding_ratio sample_max_value "
             "time_shift_type";
    case Sampler::HEUN:
      return "use_karras_sigmas use_exponential_sigmas use_beta_sigmas clip_sample_range";
    case Sampler::LMS:
    case Sampler::DPM_SDE:
    case Sampler::KDPM2:
    case Sampler::KDPM2_ANCESTRAL:
      return "use_karras_sigmas use_exponential_sigmas use_beta_sigmas";
    case Sampler::DPM_MULTISTEP:
      return "solver_order solver_type algorithm_type lower_order_final euler_at_final "
             "use_karras_sigmas use_exponential_sigmas use_beta_sigmas use_lu_lambdas "
             "final_sigmas_type lambda_min_clipped thresholding dynamic_thresholding_ratio "
             "sample_max_value time_shift_type";
    case Sampler::PNDM:
      return "skip_prk_steps";
    case Sampler::LCM:
    case Sampler::TCD:
      return "original_inference_steps timestep_scaling thresholding dynamic_thresholding_ratio "
             "sample_max_value clip_sample_range";
    case Sampler::FLOW_MATCH_HEUN:
    case Sampler::EULER_ANCESTRAL:
      return "";
  }
  fail("[scheduler] unknown sampler {}", static_cast<int>(schedule.sampler));
}

bool has_key(std::string_view keys, std::string_view key) {
  for (size_t at = keys.find(key); at != std::string_view::npos; at = keys.find(key, at + 1)) {
    const size_t end = at + key.size();
    if ((at == 0 || keys[at - 1] == ' ') && (end == keys.size() || keys[end] == ' ')) {
      return true;
    }
  }
  return false;
}

}  // namespace

void set_solver_defaults(ScheduleConfig& out) {
  out.solver.lower_order_final = lowers_order(out.sampler);
  out.levels.ends_at_sigma_min = schedulers::info_of(out.sampler).ends_at_sigma_min;
}

void read_solver_settings(const Json& config, ScheduleConfig& out) {
  const std::string_view keys = keys_of(out);
  for (const Setting& setting : settings()) {
    const Json* value = has_key(keys, setting.key) ? config.find(setting.key) : nullptr;
    if (value == nullptr || value->is_null() || !out.unsupported.empty()) {
      continue;
    }
    try {
      setting.read(out, *value);
    } catch (const Error& error) {
      constexpr std::string_view kRoom = "[scheduler] ";
      const std::string_view what = error.what();
      out.unsupported = what.substr(what.starts_with(kRoom) ? kRoom.size() : 0);
    }
  }
}

bool has_solver_setting(const ScheduleConfig& schedule, std::string_view key) {
  return has_key(keys_of(schedule), key);
}

void read_edm(const Json& config, schedulers::Edm& out) {
  for (const auto& [key, to] : {std::pair{"sigma_min", &out.sigma_min},
                                {"sigma_max", &out.sigma_max},
                                {"sigma_data", &out.sigma_data},
                                {"rho", &out.rho}}) {
    if (const Json* value = config.find(key); value != nullptr && !value->is_null()) {
      *to = value->as_number();
    }
  }
  if (const Json* value = config.find("sigma_schedule"); value != nullptr && !value->is_null()) {
    out.exponential = one_of(*value, {"karras", "exponential"}) == "exponential";
  }
}

void write_solver_settings(const ScheduleConfig& schedule, Json& to) {
  const std::string_view keys = keys_of(schedule);
  for (const Setting& setting : settings()) {
    if (const std::optional<Json> value = setting.write(schedule);
        value && has_key(keys, setting.key)) {
      to.set(setting.key, *value);
    }
  }
  if (noise_of(schedule) == Noise::EDM) {
    to.set("sigma_min", schedule.edm.sigma_min);
    to.set("sigma_max", schedule.edm.sigma_max);
    to.set("sigma_data", schedule.edm.sigma_data);
    to.set("rho", schedule.edm.rho);
    to.set("sigma_schedule", schedule.edm.exponential ? "exponential" : "karras");
  }
}

}  // namespace kinema::sample
