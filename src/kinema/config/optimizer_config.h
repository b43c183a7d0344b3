#pragma once

#include <cstdint>
#include <string>

#include "kinema/config/choices.h"
#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// The objective, the optimizer and its schedule, batch sizes.
struct OptimizerConfig {
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

  bool disable_training_weights = false;
  Given<double> training_shift = 3.0;
  Given<WeightingScheme> weighting_scheme = WeightingScheme::BELL;
  double logit_mean = 0.0;
  double logit_std = 1.0;
  double mode_scale = 1.29;
  Given<PredictionType> prediction_type = PredictionType::EPSILON;
  double snr_gamma = -1.0;
  double noise_offset = 0.0;
  Tree timestep_bias{
      R"({"strategy": "none", "multiplier": 1.0, "begin": 0, "end": 1000, "portion": 0.25})"};
  double train_guidance_scale = 1.0;
  bool stratified_timesteps = false;
  double caption_dropout = 0.0;
  TrainExpert train_expert = TrainExpert::NONE;
  int64_t expert_steps = 1;
  IdleExpert idle_expert = IdleExpert::DEVICE;
  double min_timestep = -1.0;
  double max_timestep = -1.0;
  double first_frame_conditioning_p = 0.5;
  OnNonfinite on_nonfinite = OnNonfinite::STOP;

  bool train_text_encoder = false;
  double text_encoder_learning_rate = 4.25e-6;

  bool operator==(const OptimizerConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("max_train_steps", self.max_train_steps, MAY_CHANGE,
          {.help = "optimizer steps; -1: as many as num_train_epochs takes",
           .min = -1,
           .not_zero = true});
    visit("scale_lr", self.scale_lr, MAY_CHANGE,
          {.help = "learning_rate is for one sample: it is multiplied by the samples of a step"});
    visit("num_train_epochs", self.num_train_epochs, UNRELATED,
          {.help = "how often each sample is seen; only where max_train_steps is -1", .min = 1});
    visit("per_device_batch_size", self.per_device_batch_size, UNRELATED,
          {.help = "samples per device and step, or a fraction; on generate's command line: videos",
           .max = 1e6,
           .above = 0});
    visit("global_batch_size", self.global_batch_size, MUST_MATCH,
          {.help = "samples per step over all devices; 0: devices * per_device_batch_size",
           .min = 0});
    visit("gradient_accumulation_steps", self.gradient_accumulation_steps, MUST_MATCH,
          {.help = "batches whose mean gradient makes one step", .min = 1, .max = 1e6});
    visit("learning_rate", self.learning_rate, MAY_CHANGE,
          {.help = "peak, after warmup", .min = 0});
    visit("lr_schedule", self.lr_schedule, MAY_CHANGE,
          {.help = "the rate after its rise: stays, falls in a line or half a cosine to "
                   "final_lr_fraction, or stays and falls at the end (wsd)",
           .one_of = choices(self.lr_schedule)});
    visit("warmup_steps_fraction", self.warmup_steps_fraction, MAY_CHANGE,
          {.help = "share of learning_rate_schedule_steps with a rising rate", .min = 0, .max = 1});
    visit("learning_rate_schedule_steps", self.learning_rate_schedule_steps, MAY_CHANGE,
          {.help = "length of the schedule; -1: max_train_steps", .min = -1});
    visit(
        "lr_decay_fraction", self.lr_decay_fraction, MAY_CHANGE,
        {.help = "share of the schedule, at its end, with a falling rate; -1: as lr_schedule says "
                 "(constant 0, wsd 0.1, linear and cosine all after the rise)",
         .min = -1,
         .max = 1});
    visit("final_lr_fraction", self.final_lr_fraction, MAY_CHANGE,
          {.help = "rate after the fall, as a share of the peak", .min = 0, .max = 1});
    visit(
        "optimizer", self.optimizer, MUST_MATCH,
        {.help = "adamw8bit keeps moments in a byte a number, adafactor means of rows and columns",
         .one_of = choices(self.optimizer)});
    visit("adam_b1", self.adam_b1, MAY_CHANGE,
          {.help = "decay of the first moment", .min = 0, .max = 0.99999});
    visit("adam_b2", self.adam_b2, MAY_CHANGE,
          {.help = "decay of the second moment", .min = 0, .max = 0.9999999});
    visit("adam_eps", self.adam_eps, MAY_CHANGE,
          {.help = "added to the root of the second moment", .above = 0});
    visit("adam_weight_decay", self.adam_weight_decay, MAY_CHANGE,
          {.help = "decoupled decay", .min = 0});
    visit("weight_decay_min_rank", self.weight_decay_min_rank, MAY_CHANGE,
          {.help = "tensors of lower rank are not decayed; 0: all are", .min = 0, .max = 8});
    visit("adafactor_b1", self.adafactor_b1, MUST_MATCH,
          {.help = "decay of a first moment; 0: it keeps none",
           .min = 0,
           .max = 0.99999,
           .with = "optimizer=adafactor"});
    visit("adafactor_decay_power", self.adafactor_decay_power, MAY_CHANGE,
          {.help = "the second moment's decay at update t is 1 - t^-this",
           .max = 1,
           .above = 0,
           .with = "optimizer=adafactor"});
    visit("adafactor_eps", self.adafactor_eps, MAY_CHANGE,
          {.help = "added to squares of gradients", .above = 0, .with = "optimizer=adafactor"});
    visit("adafactor_clip", self.adafactor_clip, MAY_CHANGE,
          {.help = "the largest root mean square of a parameter's update, as a "
                   "multiple of the rate",
           .above = 0,
           .with = "optimizer=adafactor"});
    visit("opt_enable_grad_clipping", self.opt_enable_grad_clipping, MAY_CHANGE,
          {.help = "clip every gradient element to max_grad_value"});
    visit("max_grad_value", self.max_grad_value, MAY_CHANGE, {.help = "see above", .above = 0});
    visit("opt_enable_grad_global_norm_clipping", self.opt_enable_grad_global_norm_clipping,
          MAY_CHANGE,
          {.help = "scale gradients so that their global norm is at most max_grad_norm"});
    visit("max_grad_norm", self.max_grad_norm, MAY_CHANGE, {.help = "see above", .above = 0});
    visit("ema_decay", self.ema_decay, MAY_CHANGE,
          {.help = "decay of an average of the weights, used by generate; 0: none",
           .min = 0,
           .max = 0.999999});
    visit(
        "ema_update_after_step", self.ema_update_after_step, MAY_CHANGE,
        {.help = "the average begins after so many steps more than one: its decay at step n is at "
                 "most (1 + s) / (10 + s) for s = n - 1 - this, and 0 for s = 0; diffusers' "
                 "scripts have 0",
         .min = -1,
         .with = "ema_decay"});
    visit("use_ema_warmup", self.use_ema_warmup, MAY_CHANGE,
          {.help = "the average's decay is at most 1 - (1 + s / ema_inv_gamma)^-ema_power instead",
           .with = "ema_decay"});
    visit("ema_inv_gamma", self.ema_inv_gamma, MAY_CHANGE,
          {.help = "see use_ema_warmup", .above = 0, .with = "use_ema_warmup"});
    visit("ema_power", self.ema_power, MAY_CHANGE,
          {.help = "see use_ema_warmup", .max = 10, .above = 0, .with = "use_ema_warmup"});
    visit("train_state_dtype", self.train_state_dtype, MAY_CHANGE,
          {.help = "dtype of parameters and adamw's moments between steps; weights_dtype: "
                   "MaxDiffusion's, half the memory, but updates below a bf16 step are lost",
           .one_of = choices(self.train_state_dtype)});
    visit("optimizer_memory", self.optimizer_memory, UNRELATED,
          {.help = "where the optimizer's moments and the average of the weights wait; host: in "
                   "host memory, from which an update fetches them layer by layer; on CPUs both "
                   "are the same",
           .one_of = choices(self.optimizer_memory)});
    visit("disable_training_weights", self.disable_training_weights, MAY_CHANGE,
          {.help = "every timestep counts the same, instead of more in the middle (wan)",
           .needs = {Needs::FLOW}});
    visit("training_shift", self.training_shift, MAY_CHANGE,
          {.help = "shift of the timestep distribution of flows; not given: 3 for wan, 1 for flux",
           .above = 0,
           .needs = {Needs::FLOW}});
    visit(
        "weighting_scheme", self.weighting_scheme, MAY_CHANGE,
        {.help = "how flows draw timesteps (logit_normal, mode) or weigh them (sigma_sqrt, cosmap, "
                 "bell); not given: bell for wan, none for flux",
         .one_of = choices(WeightingScheme{}),
         .needs = {Needs::FLOW}});
    visit("logit_mean", self.logit_mean, MAY_CHANGE,
          {.help = "mean of the logits: sigma is 1 - logistic(N(logit_mean, logit_std)), as in "
                   "diffusers' scripts, so that more is less noise",
           .min = -100,
           .max = 100,
           .with = "weighting_scheme=logit_normal"});
    visit("logit_std", self.logit_std, MAY_CHANGE,
          {.help = "standard deviation of the logits",
           .max = 100,
           .above = 0,
           .with = "weighting_scheme=logit_normal"});
    visit("mode_scale", self.mode_scale, MAY_CHANGE,
          {.help = "how far the mode is from uniform",
           .min = -1,
           .max = 1.75,
           .with = "weighting_scheme=mode"});
    visit("prediction_type", self.prediction_type, MUST_MATCH,
          {.help = "sdxl: what is learned; not given: what the model's scheduler says",
           .one_of = choices(PredictionType{}),
           .needs = {Needs::DIFFUSION},
           .share = Share::YES});
    visit("snr_gamma", self.snr_gamma, MAY_CHANGE,
          {.help = "sdxl: samples are weighed by min(snr, this) / snr (v_prediction: / (snr + 1)), "
                   "arXiv:2303.09556; 0 or less: all alike",
           .needs = {Needs::DIFFUSION}});
    visit("noise_offset", self.noise_offset, MAY_CHANGE,
          {.help = "sdxl: so much of another normal number for each channel of a sample on top of "
                   "the noise",
           .min = 0,
           .max = 10,
           .needs = {Needs::DIFFUSION}});
    visit("timestep_bias", self.timestep_bias, MAY_CHANGE,
          {.help = "sdxl: timesteps drawn `multiplier` times as often: strategy none, later or "
                   "earlier (the last or first `portion`), range ([begin, end))",
           .needs = {Needs::DIFFUSION}});
    visit("train_guidance_scale", self.train_guidance_scale, MAY_CHANGE,
          {.help = "flux dev: the guidance scale that the model is told in training",
           .min = 0,
           .needs = {Needs::TOLD_GUIDANCE}});
    visit("stratified_timesteps", self.stratified_timesteps, MAY_CHANGE,
          {.help = "one timestep from each of batch-many equal parts"});
    visit("caption_dropout", self.caption_dropout, MAY_CHANGE,
          {.help = "share of samples that train without their caption", .min = 0, .max = 1});
    visit("train_expert", self.train_expert, MUST_MATCH,
          {.help = "wan2.2 with two experts: which one is trained, at the timesteps of its side of "
                   "boundary_ratio; both: each step one of them",
           .one_of = choices(self.train_expert),
           .share = Share::YES});
    visit("expert_steps", self.expert_steps, MUST_MATCH,
          {.help = "so many steps one after the other train the same expert",
           .min = 1,
           .max = 1e6,
           .with = "train_expert=both"});
    visit("idle_expert", self.idle_expert, UNRELATED,
          {.help = "where the state of the expert waits whose turn it is not",
           .one_of = choices(self.idle_expert),
           .with = "train_expert=both"});
    visit("min_timestep", self.min_timestep, MUST_MATCH,
          {.help = "timesteps are drawn from here up; -1: from where the model is used",
           .min = -1,
           .max = 1000});
    visit("max_timestep", self.max_timestep, MUST_MATCH,
          {.help = "timesteps are drawn up to here; -1: to where the model is used",
           .min = -1,
           .max = 1000});
    visit("first_frame_conditioning_p", self.first_frame_conditioning_p, MAY_CHANGE,
          {.help = "share of samples that are made from their first frame; the others are "
                   "made of text alone",
           .min = 0,
           .max = 1,
           .with = "model_type=TI2V"});
    visit("on_nonfinite", self.on_nonfinite, MAY_CHANGE,
          {.help = "after a step with a non-finite loss or gradient, which changes nothing",
           .one_of = choices(self.on_nonfinite)});
    visit("train_text_encoder", self.train_text_encoder, MAY_CHANGE,
          {.help = "train the text encoder too",
           .later = "training the text encoder",
           .refused_by = "train"});
    visit("text_encoder_learning_rate", self.text_encoder_learning_rate, MAY_CHANGE,
          {.help = "rate of the text encoder", .min = 0, .with = "train_text_encoder"});
  }
};

}  // namespace kinema::config
