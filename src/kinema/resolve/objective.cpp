#include "kinema/resolve/objective.h"

#include <filesystem>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/model_source/model_schedule.h"
#include "kinema/resolve/generation.h"

namespace kinema::resolve {
namespace {

using config::OptimizerConfig;
using schedulers::Density;
using schedulers::Weighting;

void apply_scheme(config::WeightingScheme scheme, schedulers::FlowMatch& flow) {
  using enum config::WeightingScheme;
  flow.density = scheme == LOGIT_NORMAL ? Density::LOGIT_NORMAL
                 : scheme == MODE       ? Density::MODE
                                        : Density::UNIFORM;
  flow.weighting = scheme == SIGMA_SQRT ? Weighting::SIGMA_SQRT
                   : scheme == COSMAP   ? Weighting::COSMAP
                   : scheme == BELL     ? Weighting::BELL
                                        : Weighting::NONE;
}

schedulers::FlowMatch flow_of(const OptimizerConfig& o, schedulers::FlowMatch flow) {
  if (o.training_shift.given) {
    flow.shift = o.training_shift;
  }
  if (o.weighting_scheme.given) {
    apply_scheme(o.weighting_scheme, flow);
  }
  flow.logit_mean = o.logit_mean;
  flow.logit_std = o.logit_std;
  flow.mode_scale = o.mode_scale;
  return flow;
}

/// Throws an Error if a key of the other kind of objective was changed.
void check_only(bool changed, std::string_view key, std::string_view knows,
                std::string_view learns) {
  check(!changed, "[config] {} is for {}, but this network is {}", key, knows, learns);
}

void check_flow_keys(const OptimizerConfig& o) {
  constexpr std::string_view kDiffusions = "diffusions, such as Stable Diffusion XL";
  constexpr std::string_view kFlow = "a rectified flow";
  check_only(o.prediction_type.given, "prediction_type", kDiffusions, kFlow);
  check_only(o.snr_gamma > 0, "snr_gamma", kDiffusions, kFlow);
  check_only(o.debiased_estimation, "debiased_estimation", kDiffusions, kFlow);
  check_only(o.huber_schedule.given && o.huber_schedule == config::HuberSchedule::SNR,
             "huber_schedule=snr", kDiffusions, kFlow);
  check_only(o.noise_offset != 0, "noise_offset", kDiffusions, kFlow);
  check_only(timestep_bias(o.timestep_bias).strategy != schedulers::TimestepBias::Strategy::NONE,
             "timestep_bias", kDiffusions, kFlow);
}

void check_diffusion_keys(const OptimizerConfig& o, const model_source::Expert& expert) {
  constexpr std::string_view kFlows = "rectified flows, such as Wan and Flux";
  constexpr std::string_view kDiffusion = "a diffusion";
  check_only(o.training_shift.given, "training_shift", kFlows, kDiffusion);
  check_only(o.weighting_scheme.given, "weighting_scheme", kFlows, kDiffusion);
  check(expert.is_whole(),
        "[config] min_timestep and max_timestep are for rectified flows, but this network is a "
        "diffusion\n"
        "  timestep_bias={{strategy: range, begin: ..., end: ...}} draws some more often");
}

training::ErrorLoss error_loss(const OptimizerConfig& o, bool is_diffusion) {
  using Kind = training::ErrorLoss::Kind;
  using Threshold = training::ErrorLoss::Threshold;
  training::ErrorLoss out{.c = o.huber_c, .scale = o.huber_scale};
  switch (o.loss_type) {
    case config::LossType::L2:
      break;
    case config::LossType::L1:
      out.kind = Kind::L1;
      break;
    case config::LossType::HUBER:
      out.kind = Kind::HUBER;
      break;
    case config::LossType::SMOOTH_L1:
      out.kind = Kind::SMOOTH_L1;
      break;
  }
  if (o.huber_schedule == config::HuberSchedule::CONSTANT) {
    out.threshold = Threshold::CONSTANT;
  } else if (o.huber_schedule == config::HuberSchedule::EXPONENTIAL || !is_diffusion) {
    out.threshold = Threshold::EXPONENTIAL;
  } else {
    out.threshold = Threshold::SNR;
  }
  return out;
}

training::DiffusionObjective diffusion_of(const config::Config& config,
                                          const networks::Network& network) {
  const OptimizerConfig& o = config.optimizer;
  training::DiffusionObjective out{.diffusion = *network->learned().diffusion,
                                   .snr_gamma = o.snr_gamma,
                                   .debiased = o.debiased_estimation,
                                   .noise_offset = o.noise_offset,
                                   .bias = timestep_bias(o.timestep_bias)};
  // The betas come from the model's scheduler of any class, because the model was trained with
  // them.
  const schedulers::ScheduleConfig own =
      model_source::read_model_schedule(model_source::schedule_file_of(config),
                                        model_source::local_transformer(config), network)
          .schedule;
  if (!schedulers::is_flow(own)) {
    out.diffusion = own.diffusion;
    out.num_train_timesteps = own.num_train_timesteps;
    const schedulers::Diffusion told = with_scheduler_config(own, config.generate).diffusion;
    out.diffusion.prediction_type = told.prediction_type;
    out.diffusion.rescale_betas_zero_snr = told.rescale_betas_zero_snr;
  }
  if (o.prediction_type.given) {
    out.diffusion.prediction_type = model_source::prediction(o.prediction_type);
  }
  return out;
}

}  // namespace

schedulers::TimestepBias timestep_bias(const config::Tree& given) {
  const io::Json tree = io::Json::parse(given.json, "timestep_bias");
  schedulers::TimestepBias out;
  if (tree.is_null()) {
    return out;
  }
  check(tree.is_object(), "[config] timestep_bias is {}, expected {{strategy: none, ...}}",
        tree.describe());
  for (const auto& [key, value] : tree.members()) {
    if (key == "strategy") {
      out.strategy = schedulers::bias_strategy_from_string(value.as_string());
    } else if (key == "multiplier") {
      out.multiplier = value.as_number();
    } else if (key == "portion") {
      out.portion = value.as_number();
    } else if (key == "begin") {
      out.begin = value.as_int();
    } else if (key == "end") {
      out.end = value.as_int();
    } else {
      fail("[config] timestep_bias has no `{}`: it has strategy, multiplier, portion, begin, end",
           key);
    }
  }
  schedulers::timestep_probabilities(out);  // throws for values out of range
  return out;
}

training::ObjectiveOptions training_objective(const config::Config& config,
                                              const networks::Network& network,
                                              const model_source::Expert& expert) {
  const OptimizerConfig& o = config.optimizer;
  const schedulers::Learned learned = network->learned();
  const networks::Sizes& sizes = network.sizes();
  training::ObjectiveOptions out{.flow = flow_of(o, learned.flow),
                                 .weigh = !o.disable_training_weights,
                                 .stratified = o.stratified_timesteps,
                                 .caption_dropout = o.caption_dropout,
                                 .min_timestep = expert.min_timestep,
                                 .max_timestep = expert.max_timestep,
                                 .error = error_loss(o, learned.diffusion.has_value()),
                                 .input_perturbation = o.ip_noise_gamma};
  if (learned.diffusion) {
    check_diffusion_keys(o, expert);
    out.diffusion = diffusion_of(config, network);
  } else {
    check_flow_keys(o);
    // Throws an Error for a model with another objective.
    const schedulers::ScheduleConfig own =
        model_source::read_model_schedule(model_source::schedule_file_of(config),
                                          model_source::local_transformer(config), network)
            .schedule;
    if (learned.trains_with_sampled_shift && !o.training_shift.given) {
      out.flow.shift = own.shift;
    }
  }
  if (expert.is_both()) {
    out.boundary = expert.boundary();
  }
  if (sizes.takes_guidance) {
    out.guidance = o.train_guidance_scale;
  }
  if (config.model.model_type == config::ModelType::TI2V) {
    out.first_frame = o.first_frame_conditioning_p;
  }
  return out;
}

std::vector<std::string> objective_warnings(const config::Config& config,
                                            const networks::Network& network,
                                            const training::ObjectiveOptions& objective) {
  const std::filesystem::path trained = model_source::local_transformer(config);
  const bool is_new = trained.empty() || config.model.train_new_flux || config.model.train_new_unet;
  if (!objective.diffusion || is_new) {
    return {};
  }
  const schedulers::ScheduleConfig own =
      model_source::read_model_schedule(model_source::schedule_file_of(config), trained, network)
          .schedule;
  const schedulers::Prediction used = objective.diffusion->diffusion.prediction_type;
  if (schedulers::is_flow(own) || used == own.diffusion.prediction_type) {
    return {};
  }
  return {model_source::other_prediction(used, own.diffusion.prediction_type)};
}

}  // namespace kinema::resolve
