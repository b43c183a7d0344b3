#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/config/choices.h"
#include "kinema/config/field.h"
#include "kinema/config/given.h"
#include "kinema/config/objective_config.h"

namespace kinema::config {

/// The optimizer and its schedule, batch sizes, training of text encoders.
struct OptimizerConfig : ObjectiveConfig {
  int64_t max_train_steps = 1500;
  bool scale_lr = false;
  int64_t num_train_epochs = 1;
  double per_device_batch_size = 1.0;
  int64_t global_batch_size = 0;
  int64_t gradient_accumulation_steps = 1;

  double learning_rate = 1e-5;
  LrSchedule lr_schedule = LrSchedule::CONSTANT;
  double warmup_steps_fraction = 0.1;
  int64_t learning_rate_schedule_steps = -1;
  double lr_decay_fraction = -1.0;
  double final_lr_fraction = 0.0;
  Tree learning_rate_groups{"[]"};
  int64_t lr_num_cycles = 1;
  double lr_cycle_growth = 1.0;
  double lr_cycle_peak = 1.0;
  double lr_power = 1.0;
  Optimizer optimizer = Optimizer::ADAMW;
  double adam_b1 = 0.9;
  double adam_b2 = 0.999;
  double adam_eps = 1e-8;
  double adam_weight_decay = 0.0;
  int64_t weight_decay_min_rank = 0;
  double adafactor_b1 = 0.0;
  double adafactor_decay_power = 0.8;
  double adafactor_eps = 1e-30;
  double adafactor_clip = 1.0;
  bool adafactor_scale_parameter = false;
  double adafactor_min_scale = 1e-3;
  bool adafactor_relative_step = false;
  bool adafactor_warmup_init = false;
  double lion_b1 = 0.9;
  double lion_b2 = 0.99;
  double came_b1 = 0.9;
  double came_b2 = 0.999;
  double came_b3 = 0.9999;
  double prodigy_b3 = 0.0;
  double prodigy_d0 = 1e-6;
  double prodigy_d_coef = 1.0;
  double prodigy_growth_rate = 0.0;
  bool prodigy_bias_correction = false;
  bool prodigy_safeguard_warmup = false;
  double schedule_free_weight_power = 2.0;
  double schedule_free_average_power = 0.0;
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  int64_t muon_iterations = 5;
  MuonRate muon_rate = MuonRate::LIKE_ADAMW;
  bool opt_enable_grad_clipping = false;
  double max_grad_value = 1.0;
  bool opt_enable_grad_global_norm_clipping = false;
  double max_grad_norm = 1.0;
  double ema_decay = 0.0;
  int64_t ema_update_after_step = -1;
  bool use_ema_warmup = false;
  double ema_inv_gamma = 1.0;
  double ema_power = 2.0 / 3.0;
  StateDtype train_state_dtype = StateDtype::FLOAT32;
  OptimizerMemory optimizer_memory = OptimizerMemory::DEVICE;

  bool train_text_encoder = false;
  double text_encoder_learning_rate = -1;
  std::vector<std::string> textual_inversion;
  std::vector<std::string> textual_inversion_start;
  int64_t textual_inversion_vectors = 1;

  bool operator==(const OptimizerConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("max_train_steps", self.max_train_steps, MAY_CHANGE,
          {.help = "number of optimizer steps; -1: computed from num_train_epochs",
           .min = -1,
           .not_zero = true});
    visit("scale_lr", self.scale_lr, MAY_CHANGE,
          {.help = "multiply learning_rate by the number of samples per step"});
    visit("num_train_epochs", self.num_train_epochs, UNRELATED,
          {.help = "number of passes over the data, where max_train_steps is -1", .min = 1});
    visit("per_device_batch_size", self.per_device_batch_size, UNRELATED,
          {.help = "samples per device and step, may be a fraction; on generate's command line: "
                   "videos per device",
           .max = 1e6,
           .above = 0});
    visit("global_batch_size", self.global_batch_size, MUST_MATCH,
          {.help = "samples per step over all devices; 0: devices * per_device_batch_size",
           .min = 0});
    visit("gradient_accumulation_steps", self.gradient_accumulation_steps, MUST_MATCH,
          {.help = "number of batches whose gradients are averaged for one step",
           .min = 1,
           .max = 1e6});
    visit("learning_rate", self.learning_rate, MAY_CHANGE,
          {.help = "peak learning rate, after warmup", .min = 0});
    visit(
        "learning_rate_groups", self.learning_rate_groups, MAY_CHANGE,
        {.help = "peak learning rates of some parameters: a list of {match: NAMES, learning_rate: "
                 "RATE}, where * in NAMES is any text (blocks.0.*); the first match counts"});
    visit("lr_schedule", self.lr_schedule, MAY_CHANGE,
          {.help = "schedule after warmup: constant; linear, cosine, polynomial or rex decay to "
                   "final_lr_fraction; cosine_with_restarts: lr_num_cycles decays; wsd: constant "
                   "with a linear decay at the end",
           .one_of = choices(self.lr_schedule)});
    visit("warmup_steps_fraction", self.warmup_steps_fraction, MAY_CHANGE,
          {.help = "fraction of learning_rate_schedule_steps used for warmup", .min = 0, .max = 1});
    visit(
        "learning_rate_schedule_steps", self.learning_rate_schedule_steps, MAY_CHANGE,
        {.help = "length of the learning rate schedule in steps; -1: max_train_steps", .min = -1});
    visit("lr_decay_fraction", self.lr_decay_fraction, MAY_CHANGE,
          {.help = "fraction of the schedule, at its end, used for decay; -1: set by lr_schedule "
                   "(constant 0, wsd 0.1, linear and cosine everything after warmup)",
           .min = -1,
           .max = 1});
    visit("lr_num_cycles", self.lr_num_cycles, MAY_CHANGE,
          {.help = "number of cosine decays, each from the peak learning rate",
           .min = 1,
           .max = 1e6,
           .with = "lr_schedule=cosine_with_restarts"});
    visit("lr_cycle_growth", self.lr_cycle_growth, MAY_CHANGE,
          {.help = "length of a cycle, in lengths of the one before (warm restarts); 1: all equal",
           .min = 1,
           .max = 100,
           .with = "lr_schedule=cosine_with_restarts"});
    visit("lr_cycle_peak", self.lr_cycle_peak, MAY_CHANGE,
          {.help = "peak of a cycle, as a fraction of the one before",
           .max = 1,
           .above = 0,
           .with = "lr_schedule=cosine_with_restarts"});
    visit("lr_power", self.lr_power, MAY_CHANGE,
          {.help = "power of the polynomial decay; 1: linear",
           .max = 100,
           .above = 0,
           .with = "lr_schedule=polynomial"});
    visit("final_lr_fraction", self.final_lr_fraction, MAY_CHANGE,
          {.help = "learning rate after the decay, as a fraction of the peak", .min = 0, .max = 1});
    visit("optimizer", self.optimizer, MUST_MATCH,
          {.help = "adamw8bit and lion8bit store moments in 8 bits; adafactor and came store "
                   "factored second moments; lion and muon have no second moment; prodigy "
                   "estimates the learning rate (learning_rate=1); adamw_schedule_free averages "
                   "instead of decaying the rate",
           .one_of = choices(self.optimizer)});
    visit("adam_b1", self.adam_b1, MAY_CHANGE,
          {.help = "beta1: decay of the first moment",
           .min = 0,
           .max = 0.99999,
           .with = "optimizer=adamw | adamw8bit | prodigy | adamw_schedule_free | muon"});
    visit("adam_b2", self.adam_b2, MAY_CHANGE,
          {.help = "beta2: decay of the second moment",
           .min = 0,
           .max = 0.9999999,
           .with = "optimizer=adamw | adamw8bit | prodigy | adamw_schedule_free | muon"});
    visit("adam_eps", self.adam_eps, MAY_CHANGE,
          {.help = "epsilon, added to the square root of the second moment",
           .above = 0,
           .with = "optimizer=adamw | adamw8bit | prodigy | adamw_schedule_free | muon"});
    visit("adam_weight_decay", self.adam_weight_decay, MAY_CHANGE,
          {.help = "decoupled weight decay", .min = 0});
    visit("weight_decay_min_rank", self.weight_decay_min_rank, MAY_CHANGE,
          {.help = "no weight decay for tensors of lower rank; 0: decay all", .min = 0, .max = 8});
    visit("adafactor_b1", self.adafactor_b1, MUST_MATCH,
          {.help = "decay of the first moment; 0: no first moment",
           .min = 0,
           .max = 0.99999,
           .with = "optimizer=adafactor"});
    visit("adafactor_decay_power", self.adafactor_decay_power, MAY_CHANGE,
          {.help = "the second moment's decay at update t is 1 - t^-adafactor_decay_power",
           .max = 1,
           .above = 0,
           .with = "optimizer=adafactor"});
    visit(
        "adafactor_eps", self.adafactor_eps, MAY_CHANGE,
        {.help = "epsilon, added to squared gradients", .above = 0, .with = "optimizer=adafactor"});
    visit("adafactor_clip", self.adafactor_clip, MAY_CHANGE,
          {.help = "maximum RMS of a parameter's update, as a multiple of the learning rate",
           .above = 0,
           .with = "optimizer=adafactor"});
    visit("adafactor_scale_parameter", self.adafactor_scale_parameter, MAY_CHANGE,
          {.help = "multiply the learning rate by the RMS of the parameter, at least "
                   "adafactor_min_scale",
           .with = "optimizer=adafactor"});
    visit(
        "adafactor_min_scale", self.adafactor_min_scale, MAY_CHANGE,
        {.help = "see adafactor_scale_parameter", .above = 0, .with = "adafactor_scale_parameter"});
    visit("adafactor_relative_step", self.adafactor_relative_step, MAY_CHANGE,
          {.help = "the learning rate of step t is min(0.01, 1 / sqrt(t)); learning_rate and its "
                   "schedule have no effect",
           .with = "optimizer=adafactor"});
    visit("adafactor_warmup_init", self.adafactor_warmup_init, MAY_CHANGE,
          {.help = "1e-6 t instead of 0.01 in adafactor_relative_step",
           .with = "adafactor_relative_step"});
    visit("prodigy_b3", self.prodigy_b3, MAY_CHANGE,
          {.help = "decay of the sums that estimate d; 0: sqrt(adam_b2)",
           .min = 0,
           .max = 0.9999999,
           .with = "optimizer=prodigy"});
    visit("prodigy_d0", self.prodigy_d0, MUST_MATCH,
          {.help = "first estimate of d, the learning rate",
           .above = 0,
           .with = "optimizer=prodigy"});
    visit("prodigy_d_coef", self.prodigy_d_coef, MAY_CHANGE,
          {.help = "factor of estimates of d: 0.5 to 2 change the rate most directly",
           .above = 0,
           .with = "optimizer=prodigy"});
    visit("prodigy_growth_rate", self.prodigy_growth_rate, MAY_CHANGE,
          {.help = "largest factor of d from one step to the next, at least 1; 0: no limit",
           .min = 0,
           .with = "optimizer=prodigy"});
    visit(
        "prodigy_bias_correction", self.prodigy_bias_correction, MAY_CHANGE,
        {.help = "correct the moments' start at zero, as Adam does", .with = "optimizer=prodigy"});
    visit("prodigy_safeguard_warmup", self.prodigy_safeguard_warmup, MAY_CHANGE,
          {.help = "keep a warmup from raising d", .with = "optimizer=prodigy"});
    visit("schedule_free_weight_power", self.schedule_free_weight_power, MAY_CHANGE,
          {.help = "a step's weight in the average is the largest learning rate so far to this "
                   "power",
           .min = 0,
           .max = 100,
           .with = "optimizer=adamw_schedule_free"});
    visit("schedule_free_average_power", self.schedule_free_average_power, MAY_CHANGE,
          {.help = "times the number of the step to this power",
           .min = 0,
           .max = 100,
           .with = "optimizer=adamw_schedule_free"});
    visit("muon_momentum", self.muon_momentum, MAY_CHANGE,
          {.help = "decay of the momentum", .min = 0, .max = 0.99999, .with = "optimizer=muon"});
    visit("muon_nesterov", self.muon_nesterov, MAY_CHANGE,
          {.help = "Nesterov's momentum", .with = "optimizer=muon"});
    visit("muon_iterations", self.muon_iterations, MAY_CHANGE,
          {.help = "Newton-Schulz iterations", .min = 1, .max = 99, .with = "optimizer=muon"});
    visit(
        "muon_rate", self.muon_rate, MAY_CHANGE,
        {.help = "like_adamw: updates of matrices as large as AdamW's; original: sqrt(max(1, rows "
                 "/ columns)) of the learning rate",
         .one_of = choices(self.muon_rate),
         .with = "optimizer=muon"});
    visit("lion_b1", self.lion_b1, MAY_CHANGE,
          {.help = "weight of the momentum in an update",
           .min = 0,
           .max = 0.99999,
           .with = "optimizer=lion | lion8bit"});
    visit("lion_b2", self.lion_b2, MAY_CHANGE,
          {.help = "decay of the momentum",
           .min = 0,
           .max = 0.99999,
           .with = "optimizer=lion | lion8bit"});
    visit("came_b1", self.came_b1, MAY_CHANGE,
          {.help = "decay of the momentum", .min = 0, .max = 0.99999, .with = "optimizer=came"});
    visit("came_b2", self.came_b2, MAY_CHANGE,
          {.help = "decay of the squared gradients",
           .min = 0,
           .max = 0.9999999,
           .with = "optimizer=came"});
    visit("came_b3", self.came_b3, MAY_CHANGE,
          {.help = "decay of the squared distances of updates to the momentum",
           .min = 0,
           .max = 0.9999999,
           .with = "optimizer=came"});
    visit("opt_enable_grad_clipping", self.opt_enable_grad_clipping, MAY_CHANGE,
          {.help = "clip each gradient element to max_grad_value"});
    visit("max_grad_value", self.max_grad_value, MAY_CHANGE,
          {.help = "limit of opt_enable_grad_clipping", .above = 0});
    visit("opt_enable_grad_global_norm_clipping", self.opt_enable_grad_global_norm_clipping,
          MAY_CHANGE, {.help = "clip gradients to a global norm of max_grad_norm"});
    visit("max_grad_norm", self.max_grad_norm, MAY_CHANGE,
          {.help = "limit of opt_enable_grad_global_norm_clipping", .above = 0});
    visit("ema_decay", self.ema_decay, MAY_CHANGE,
          {.help = "decay of the exponential moving average (EMA) of the weights, which generate "
                   "uses; 0: no EMA",
           .min = 0,
           .max = 0.999999});
    visit("ema_update_after_step", self.ema_update_after_step, MAY_CHANGE,
          {.help = "number of steps before EMA updates start; the decay at step n is at most (1 + "
                   "s) / (10 + s) for s = n - 1 - ema_update_after_step; diffusers' scripts use 0",
           .min = -1,
           .with = "ema_decay"});
    visit("use_ema_warmup", self.use_ema_warmup, MAY_CHANGE,
          {.help = "limit the EMA decay to 1 - (1 + s / ema_inv_gamma)^-ema_power instead",
           .with = "ema_decay"});
    visit("ema_inv_gamma", self.ema_inv_gamma, MAY_CHANGE,
          {.help = "see use_ema_warmup", .above = 0, .with = "use_ema_warmup"});
    visit("ema_power", self.ema_power, MAY_CHANGE,
          {.help = "see use_ema_warmup", .max = 10, .above = 0, .with = "use_ema_warmup"});
    visit("train_state_dtype", self.train_state_dtype, MAY_CHANGE,
          {.help = "dtype of parameters and AdamW moments between steps; weights_dtype, as in "
                   "MaxDiffusion, halves the memory, but updates below bfloat16 precision are lost",
           .one_of = choices(self.train_state_dtype)});
    visit("optimizer_memory", self.optimizer_memory, UNRELATED,
          {.help = "placement of optimizer moments and EMA. host: in host memory, fetched layer by "
                   "layer in each update; no difference on CPUs",
           .one_of = choices(self.optimizer_memory)});
    ObjectiveConfig::fields(self, visit);
    visit("train_text_encoder", self.train_text_encoder, MUST_MATCH,
          {.help = "train CLIP too: both text encoders of SDXL, that of Stable Diffusion 1 and 2, "
                   "CLIP of Flux; whole, or with enable_lora by adapters"});
    visit("text_encoder_learning_rate", self.text_encoder_learning_rate, MAY_CHANGE,
          {.help = "learning rate of text encoders; -1: learning_rate",
           .min = -1,
           .with = "train_text_encoder"});
    visit("textual_inversion", self.textual_inversion, MUST_MATCH,
          {.help = "words to train instead of the network: rows of CLIP's embedding table, for "
                   "captions and prompts with these words; checkpoints hold a file for each",
           .without = "train_text_encoder"});
    visit(
        "textual_inversion_start", self.textual_inversion_start, MUST_MATCH,
        {.help = "initial text of each word: it starts as the embeddings of its tokens; empty: `*`",
         .with = "textual_inversion"});
    visit("textual_inversion_vectors", self.textual_inversion_vectors, MUST_MATCH,
          {.help = "rows (tokens) of each word", .min = 1, .max = 75, .with = "textual_inversion"});
  }
};

}  // namespace kinema::config
