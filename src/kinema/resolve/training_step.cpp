#include "kinema/resolve/training_step.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/mesh/batch.h"
#include "kinema/model_source/model_options.h"
#include "kinema/networks/controlled.h"
#include "kinema/networks/inner_model.h"
#include "kinema/networks/with_text.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/objective.h"
#include "kinema/training/network_model.h"

namespace kinema::resolve {
namespace {

training::OptimizerKind optimizer_kind(config::Optimizer optimizer) {
  using enum training::OptimizerKind;
  switch (optimizer) {
    case config::Optimizer::ADAMW:
      return ADAMW;
    case config::Optimizer::ADAMW8BIT:
      return ADAMW8BIT;
    case config::Optimizer::ADAFACTOR:
      return ADAFACTOR;
    case config::Optimizer::LION:
      return LION;
    case config::Optimizer::LION8BIT:
      return LION8BIT;
    case config::Optimizer::CAME:
      return CAME;
    case config::Optimizer::PRODIGY:
      return PRODIGY;
    case config::Optimizer::ADAMW_SCHEDULE_FREE:
      return SCHEDULE_FREE;
    case config::Optimizer::MUON:
      return MUON;
  }
  fail("[config] unknown optimizer {}", static_cast<int>(optimizer));
}

optimizers::ProdigyOptions prodigy_options(const config::OptimizerConfig& o) {
  check(o.prodigy_growth_rate == 0.0 || o.prodigy_growth_rate >= 1.0,
        "[config] prodigy_growth_rate is {:g}, expected 0 (no limit) or a number of at least 1",
        o.prodigy_growth_rate);
  optimizers::ProdigyOptions out{.b1 = o.adam_b1,
                                 .b2 = o.adam_b2,
                                 .b3 = o.prodigy_b3,
                                 .eps = o.adam_eps,
                                 .weight_decay = o.adam_weight_decay,
                                 .decay_min_rank = o.weight_decay_min_rank,
                                 .d0 = o.prodigy_d0,
                                 .d_coef = o.prodigy_d_coef};
  if (o.prodigy_growth_rate > 0.0) {
    out.growth_rate = o.prodigy_growth_rate;
  }
  out.bias_correction = o.prodigy_bias_correction;
  out.safeguard_warmup = o.prodigy_safeguard_warmup;
  return out;
}

std::vector<optimizers::RateGroup> rate_groups(const config::OptimizerConfig& o) {
  const io::Json given = io::Json::parse(o.learning_rate_groups.json, "learning_rate_groups");
  check(given.is_array(),
        "[config] learning_rate_groups is {}, expected a list of {{match: NAMES, learning_rate: "
        "RATE}}",
        given.describe());
  std::vector<optimizers::RateGroup> out;
  for (const io::Json& each : given.items()) {
    check(each.is_object() && each.contains("match") && each.contains("learning_rate") &&
              each.members().size() == 2,
          "[config] learning_rate_groups has {}, expected {{match: NAMES, learning_rate: RATE}}",
          each.dump(-1));
    const double rate = each.at("learning_rate").as_number();
    check(std::isfinite(rate) && rate >= 0,
          "[config] learning_rate_groups: learning_rate is {:g}, expected a number of at least 0",
          rate);
    check(o.learning_rate > 0,
          "[config] learning_rate_groups are relative to learning_rate, which is 0\n  set it, and "
          "a group {{match: \"*\", learning_rate: 0}} at the end for all others");
    const double factor = rate / o.learning_rate;
    check(o.optimizer != config::Optimizer::PRODIGY || factor == 0 || factor == 1,
          "[config] learning_rate_groups: `{}` has {:g}, but prodigy has one learning rate for all "
          "parameters\n  0 leaves parameters unchanged",
          each.at("match").as_string(), rate);
    out.push_back({.pattern = each.at("match").as_string(), .factor = factor});
  }
  if (o.train_text_encoder && o.text_encoder_learning_rate >= 0) {
    check(o.learning_rate > 0,
          "[config] text_encoder_learning_rate is relative to learning_rate, which is 0\n  "
          "trained_modules=[text_encoder] trains text encoders alone");
    const double factor = o.text_encoder_learning_rate / o.learning_rate;
    check(o.optimizer != config::Optimizer::PRODIGY || factor == 0 || factor == 1,
          "[config] text_encoder_learning_rate is {:g}, but prodigy has one learning rate for all "
          "parameters\n  -1 is learning_rate",
          o.text_encoder_learning_rate);
    out.push_back({.pattern = "text_encoder*", .factor = factor});
  }
  return out;
}

bool is_learned_row(const nn::ParamSpec& spec) {
  const std::string_view part = networks::inner_part(spec.name);
  return !part.empty() && spec.name.substr(part.size() + 1) == networks::kLearnedRows;
}

/// Of a network that is trained in part: parameters whose names start with none of the words are
/// frozen.
void freeze_others(const std::vector<std::string>& words, bool has_adapter,
                   std::vector<nn::ParamSpec>& specs) {
  if (words.empty()) {
    return;
  }
  check(!has_adapter,
        "[config] trained_modules is given, but an adapter is trained (enable_lora)\n  "
        "lora_target_modules names its layers");
  for (const std::string& word : words) {
    check(
        std::ranges::any_of(specs,
                            [&](const nn::ParamSpec& spec) { return spec.name.starts_with(word); }),
        "[config] trained_modules has `{}`, with which no parameter's name starts\n  the first is "
        "`{}`",
        word, specs.front().name);
  }
  for (nn::ParamSpec& spec : specs) {
    spec.trained = std::ranges::any_of(
        words, [&](const std::string& word) { return spec.name.starts_with(word); });
  }
}

}  // namespace

training::StepOptions step_options(const config::Config& config, const networks::Network& network,
                                   const model_source::Expert& expert) {
  const config::OptimizerConfig& o = config.optimizer;
  training::StepOptions out;
  out.optimizer = optimizer_kind(o.optimizer);
  out.adafactor = {.b1 = o.adafactor_b1,
                   .decay_power = o.adafactor_decay_power,
                   .eps = o.adafactor_eps,
                   .clip = o.adafactor_clip,
                   .scale_parameter = o.adafactor_scale_parameter,
                   .min_scale = o.adafactor_min_scale,
                   .weight_decay = o.adam_weight_decay,
                   .decay_min_rank = o.weight_decay_min_rank};
  out.lion = {.b1 = o.lion_b1,
              .b2 = o.lion_b2,
              .weight_decay = o.adam_weight_decay,
              .decay_min_rank = o.weight_decay_min_rank};
  out.came = {.b1 = o.came_b1,
              .b2 = o.came_b2,
              .b3 = o.came_b3,
              .weight_decay = o.adam_weight_decay,
              .decay_min_rank = o.weight_decay_min_rank};
  out.prodigy = prodigy_options(o);
  out.schedule_free = {.b1 = o.adam_b1,
                       .b2 = o.adam_b2,
                       .eps = o.adam_eps,
                       .weight_decay = o.adam_weight_decay,
                       .decay_min_rank = o.weight_decay_min_rank,
                       .weight_power = o.schedule_free_weight_power,
                       .average_power = o.schedule_free_average_power};
  out.rate_groups = rate_groups(o);
  out.adamw.b1 = o.adam_b1;
  out.adamw.b2 = o.adam_b2;
  out.adamw.eps = o.adam_eps;
  out.adamw.weight_decay = o.adam_weight_decay;
  out.adamw.decay_min_rank = o.weight_decay_min_rank;
  out.muon = {.momentum = o.muon_momentum,
              .nesterov = o.muon_nesterov,
              .iterations = o.muon_iterations,
              .rate = o.muon_rate == config::MuonRate::ORIGINAL ? optimizers::MuonRate::ORIGINAL
                                                                : optimizers::MuonRate::LIKE_ADAMW,
              .weight_decay = o.adam_weight_decay,
              .adamw = out.adamw};
  if (o.opt_enable_grad_clipping) {
    out.adamw.max_value = o.max_grad_value;
  }
  if (o.opt_enable_grad_global_norm_clipping) {
    out.adamw.max_norm = o.max_grad_norm;
  }
  out.objective = training_objective(config, network, expert);
  out.accumulation = o.gradient_accumulation_steps;
  out.ema = {.decay = o.ema_decay,
             .update_after_step = o.ema_update_after_step,
             .warmup = o.use_ema_warmup,
             .inv_gamma = o.ema_inv_gamma,
             .power = o.ema_power};
  out.state = o.train_state_dtype == config::StateDtype::WEIGHTS_DTYPE
                  ? training::StateDType::WEIGHTS
                  : training::StateDType::F32;
  if (o.optimizer_memory == config::OptimizerMemory::HOST) {
    check(
        config.runtime.jit,
        "[config] optimizer_memory is `host`, but jit is false, which runs every block separately\n"
        "  jit=true, or optimizer_memory=device");
    out.optimizer_memory = Memory::HOST;
  }
  return out;
}

training::StepGraph TrainingStep::build(const training::BatchShapes& shapes) const {
  return training::build_step(specs, training::network_model(network, options), shapes, step);
}

TrainingStep training_step(const config::Config& config, const networks::Network& network,
                           const model_source::Expert& expert,
                           std::vector<model_source::TrainedAdapter> adapters,
                           const mesh::Placement& asked) {
  const config::OptimizerConfig& o = config.optimizer;
  TrainingStep out{.expert = expert,
                   .network = network,
                   .options = model_source::model_options(config),
                   .step = step_options(config, network, expert),
                   .remat_policy = config.model.remat_policy,
                   .adapters = std::move(adapters)};
  out.samples = batch_sizes(config, asked.devices()).train;
  out.batch = out.samples * o.gradient_accumulation_steps;
  const mesh::Placement place = asked.for_samples(out.samples);
  mesh::check_batch(place, out.samples, o.global_batch_size > 0 ? 0 : o.per_device_batch_size);
  out.batch_text = batch_text(config, asked, out.samples);
  out.warnings = model_source::check_model_type(config, network.sizes());
  std::ranges::copy(objective_warnings(config, network, out.step.objective),
                    std::back_inserter(out.warnings));
  network->check_divides(place);
  out.options.place = place;
  if (!out.adapters.empty()) {
    out.options.low_ranks = out.adapters.front().config.modules;
    out.options.low_rank_dropout = out.adapters.front().config.dropout;
  }
  out.specs = network->parameters(out.options, model_source::init_options(config));
  if (!out.adapters.empty()) {
    weights::freeze_base(out.specs, out.adapters.front().config);
  }
  for (nn::ParamSpec& spec : out.specs) {
    spec.trained = o.textual_inversion.empty() ? spec.trained : is_learned_row(spec);
  }
  networks::freeze_controlled(out.specs);
  freeze_others(config.model.trained_modules, !out.adapters.empty(), out.specs);
  out.step.place = place;
  out.step.batch_axes = mesh::batch_axes(place, config.parallel.data_sharding, out.batch);
  return out;
}

}  // namespace kinema::resolve
