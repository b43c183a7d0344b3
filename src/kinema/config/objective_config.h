#pragma once

#include <cstdint>

#include "kinema/config/choices.h"
#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// The loss: timesteps, their weights, noise and what it is compared with.
struct ObjectiveConfig {
  bool disable_training_weights = false;
  Given<double> training_shift = 3.0;
  Given<WeightingScheme> weighting_scheme = WeightingScheme::BELL;
  double logit_mean = 0.0;
  double logit_std = 1.0;
  double mode_scale = 1.29;
  Given<PredictionType> prediction_type = PredictionType::EPSILON;
  double snr_gamma = -1.0;
  bool debiased_estimation = false;
  double noise_offset = 0.0;
  double ip_noise_gamma = 0.0;
  LossType loss_type = LossType::L2;
  Given<HuberSchedule> huber_schedule = HuberSchedule::SNR;
  double huber_c = 0.1;
  double huber_scale = 1.0;
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

  bool operator==(const ObjectiveConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("disable_training_weights", self.disable_training_weights, MAY_CHANGE,
          {.help = "weigh all timesteps equally, instead of more in the middle (wan)",
           .needs = {Needs::FLOW}});
    visit(
        "training_shift", self.training_shift, MAY_CHANGE,
        {.help =
             "shift of the timestep distribution of flow models; not given: 3 for wan, 1 for flux",
         .above = 0,
         .needs = {Needs::FLOW}});
    visit("weighting_scheme", self.weighting_scheme, MAY_CHANGE,
          {.help = "flow models: timestep distribution (logit_normal, mode) or loss weights "
                   "(sigma_sqrt, cosmap, bell); not given: bell for wan, none for flux",
           .one_of = choices(WeightingScheme{}),
           .needs = {Needs::FLOW}});
    visit("logit_mean", self.logit_mean, MAY_CHANGE,
          {.help = "mean of the logits: sigma is 1 - logistic(N(logit_mean, logit_std)) as in "
                   "diffusers' scripts, so larger means less noise",
           .min = -100,
           .max = 100,
           .with = "weighting_scheme=logit_normal"});
    visit("logit_std", self.logit_std, MAY_CHANGE,
          {.help = "standard deviation of the logits",
           .max = 100,
           .above = 0,
           .with = "weighting_scheme=logit_normal"});
    visit("mode_scale", self.mode_scale, MAY_CHANGE,
          {.help = "distance of the mode distribution from uniform",
           .min = -1,
           .max = 1.75,
           .with = "weighting_scheme=mode"});
    visit("prediction_type", self.prediction_type, MUST_MATCH,
          {.help = "sdxl: prediction target; not given: that of the model's scheduler",
           .one_of = choices(PredictionType{}),
           .needs = {Needs::DIFFUSION},
           .share = Share::YES});
    visit("snr_gamma", self.snr_gamma, MAY_CHANGE,
          {.help = "sdxl: min-SNR loss weights min(snr, snr_gamma) / snr (v_prediction: / (snr + "
                   "1)), arXiv:2303.09556; 0 or less: off",
           .needs = {Needs::DIFFUSION}});
    visit("debiased_estimation", self.debiased_estimation, MAY_CHANGE,
          {.help = "sdxl: loss weights 1 / sqrt(snr) (v_prediction: 1 / (snr + 1)), with the "
                   "signal-to-noise ratio at most 1000, arXiv:2310.08442",
           .needs = {Needs::DIFFUSION}});
    visit("loss_type", self.loss_type, MAY_CHANGE,
          {.help = "loss of an error e: l2 e^2, l1 |e|, huber 2 c (sqrt(e^2 + c^2) - c), smooth_l1 "
                   "that divided by c; evaluations are always l2",
           .one_of = choices(self.loss_type)});
    visit("huber_schedule", self.huber_schedule, MAY_CHANGE,
          {.help = "the c of loss_type at timestep t: constant huber_c huber_scale; exponential "
                   "huber_c^(t / 1000) huber_scale; snr (1 - huber_c) / (1 + sigma)^2 + huber_c, "
                   "for diffusions; not given: snr, or exponential for flows",
           .one_of = choices(HuberSchedule{}),
           .with = "loss_type=huber | smooth_l1"});
    visit("huber_c", self.huber_c, MAY_CHANGE,
          {.help = "see huber_schedule",
           .max = 1e6,
           .above = 0,
           .with = "loss_type=huber | smooth_l1"});
    visit("huber_scale", self.huber_scale, MAY_CHANGE,
          {.help = "see huber_schedule",
           .max = 1e6,
           .above = 0,
           .with = "loss_type=huber | smooth_l1"});
    visit("ip_noise_gamma", self.ip_noise_gamma, MAY_CHANGE,
          {.help = "input perturbation: this much more noise in the network's input than in its "
                   "target, arXiv:2301.11706; 0.1 is usual",
           .min = 0,
           .max = 10});
    visit("noise_offset", self.noise_offset, MAY_CHANGE,
          {.help =
               "sdxl: offset noise: this times one normal number per channel is added to the noise",
           .min = 0,
           .max = 10,
           .needs = {Needs::DIFFUSION}});
    visit("timestep_bias", self.timestep_bias, MAY_CHANGE,
          {.help = "sdxl: draw some timesteps `multiplier` times as often: strategy none, later or "
                   "earlier (the last or first `portion`), range ([begin, end))",
           .needs = {Needs::DIFFUSION}});
    visit("train_guidance_scale", self.train_guidance_scale, MAY_CHANGE,
          {.help = "flux dev: guidance scale that conditions the model in training",
           .min = 0,
           .needs = {Needs::EMBEDDED_GUIDANCE}});
    visit("stratified_timesteps", self.stratified_timesteps, MAY_CHANGE,
          {.help = "draw one timestep from each of batch-many equal intervals"});
    visit("caption_dropout", self.caption_dropout, MAY_CHANGE,
          {.help = "fraction of samples trained with an empty caption", .min = 0, .max = 1});
    visit("train_expert", self.train_expert, MUST_MATCH,
          {.help = "wan2.2 with two experts: which one to train, at the timesteps of its side of "
                   "boundary_ratio; both: one of them per step",
           .one_of = choices(self.train_expert),
           .share = Share::YES});
    visit("expert_steps", self.expert_steps, MUST_MATCH,
          {.help = "consecutive steps that train the same expert",
           .min = 1,
           .max = 1e6,
           .with = "train_expert=both"});
    visit("idle_expert", self.idle_expert, UNRELATED,
          {.help = "placement of the state of the expert that is not training",
           .one_of = choices(self.idle_expert),
           .with = "train_expert=both"});
    visit("min_timestep", self.min_timestep, MUST_MATCH,
          {.help = "lowest timestep to train; -1: the lowest the model uses",
           .min = -1,
           .max = 1000});
    visit("max_timestep", self.max_timestep, MUST_MATCH,
          {.help = "highest timestep to train; -1: the highest the model uses",
           .min = -1,
           .max = 1000});
    visit("first_frame_conditioning_p", self.first_frame_conditioning_p, MAY_CHANGE,
          {.help = "fraction of samples conditioned on their first frame; the others are "
                   "conditioned on text only",
           .min = 0,
           .max = 1,
           .with = "model_type=TI2V"});
    visit("on_nonfinite", self.on_nonfinite, MAY_CHANGE,
          {.help = "what to do after a step with a non-finite loss or gradient; such a step "
                   "changes no weights",
           .one_of = choices(self.on_nonfinite)});
  }
};

}  // namespace kinema::config
