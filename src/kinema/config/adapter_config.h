#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/config/choices.h"
#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// LoRA and other adapters, and quantized weights and products.
struct AdapterConfig {
  std::string lora;
  bool enable_lora = false;
  Tree lora_config;
  LoraMode lora_mode = LoraMode::MERGE;
  LoraUnmatched lora_unmatched = LoraUnmatched::HARMLESS;
  AdapterType adapter_type = AdapterType::LORA;
  int64_t lokr_factor = -1;
  Given<int64_t> lora_rank = 16;
  Given<double> lora_alpha = 0.0;
  std::vector<std::string> lora_target_modules{"attention"};
  std::vector<std::string> trained_modules;
  double lora_dropout = 0.0;
  bool use_rslora = false;
  LoraInit lora_init = LoraInit::KAIMING;
  double lora_plus_ratio = 1.0;
  std::string training_lora;
  std::string train_controlnet;
  WeightsStorage weights_storage = WeightsStorage::FLOATS;
  WeightsMemory weights_memory = WeightsMemory::DEVICE;
  bool use_qwix_quantization = false;
  std::string quantization;
  std::string qwix_module_path = ".*";
  std::string weight_quantization_calibration_method = "absmax";
  std::string act_quantization_calibration_method = "absmax";
  std::string bwd_quantization_calibration_method = "absmax";
  bool qwix_use_original_residuals = false;

  bool operator==(const AdapterConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("lora", self.lora, UNRELATED,
          {.help = "short form of lora_config with enable_lora: FILE[:scale][,FILE...], added "
                   "after the files of lora_config"});
    visit("enable_lora", self.enable_lora, MUST_MATCH,
          {.help = "train: train a LoRA adapter and freeze the model; generate: use the files of "
                   "lora_config",
           .share = Share::YES});
    visit("lora_config", self.lora_config, MAY_CHANGE,
          {.help = "LoRA files as lists, one item per adapter: lora_model_name_or_path, "
                   "weight_name (or high_noise_weight_name, low_noise_weight_name), adapter_name, "
                   "scale. train continues the first and merges the others. Also rank, lora_alpha, "
                   "lora_target_modules, lora_dropout, use_rslora and init",
           .with = "enable_lora",
           .share = Share::FILE,
           .reload = Reload::WEIGHTS});
    visit("lora_mode", self.lora_mode, MAY_CHANGE,
          {.help = "merge: add the LoRA to the weights when they are loaded; apply: keep it as "
                   "separate low-rank matmuls, weights unchanged",
           .one_of = choices(self.lora_mode),
           .with = "enable_lora",
           .share = Share::YES});
    visit("lora_unmatched", self.lora_unmatched, MAY_CHANGE,
          {.help = "tensors of a LoRA file that fit no weight of the model. harmless: skip those "
                   "that the docs list (image conditioning, patch embedding, bundled embeddings), "
                   "refuse others; skip: skip all of them; refuse: refuse all of them",
           .one_of = choices(self.lora_unmatched),
           .with = "enable_lora",
           .share = Share::YES});
    visit("adapter_type", self.adapter_type, MUST_MATCH,
          {.help = "kind of the trained adapter: lora; dora (rescales rows to trained norms); loha "
                   "and lokr (products by elements and Kronecker products, as LyCORIS)",
           .one_of = choices(self.adapter_type),
           .with = "enable_lora"});
    visit("lokr_factor", self.lokr_factor, MUST_MATCH,
          {.help = "adapter_type lokr: size of the first factor, as LyCORIS' `factor`; -1: both "
                   "factors are of similar size",
           .min = -1,
           .max = 65536,
           .with = "enable_lora"});
    visit("lora_rank", self.lora_rank, MUST_MATCH,
          {.help = "rank of the trained adapter; not given: that of the file it continues",
           .min = 1,
           .max = 4096,
           .with = "enable_lora"});
    visit("lora_alpha", self.lora_alpha, MUST_MATCH,
          {.help = "scale of the adapter is lora_alpha / lora_rank; 0: lora_rank, or that of the "
                   "file it continues",
           .min = 0,
           .max = 1e6,
           .with = "enable_lora"});
    visit(
        "lora_target_modules", self.lora_target_modules, MUST_MATCH,
        {.help = "linear layers that get an adapter: attention | attention+ffn | all, names of the "
                 "transformer's modules or their ends (to_q, attn1.to_q), regular expressions of "
                 "whole names",
         .min_items = 1,
         .or_item = true,
         .with = "enable_lora"});
    visit("trained_modules", self.trained_modules, MUST_MATCH,
          {.help = "parameters that are trained: those whose name starts with one of these words "
                   "(vace_ for VACE's control branch); empty: all",
           .or_item = true});
    visit("lora_dropout", self.lora_dropout, MAY_CHANGE,
          {.help = "dropout probability of the adapter's inputs in training",
           .min = 0,
           .max = 0.99,
           .with = "enable_lora"});
    visit("use_rslora", self.use_rslora, MUST_MATCH,
          {.help = "rank-stabilised LoRA: divide lora_alpha by the square root of lora_rank "
                   "(arXiv:2312.03732)",
           .with = "enable_lora"});
    visit("lora_init", self.lora_init, UNRELATED,
          {.help = "initialisation of lora_A as in PEFT: kaiming (uniform within 1 / sqrt(inputs)) "
                   "or gaussian (standard deviation 1 / lora_rank); lora_B is 0",
           .one_of = choices(self.lora_init),
           .with = "enable_lora"});
    visit("lora_plus_ratio", self.lora_plus_ratio, MAY_CHANGE,
          {.help = "learning rate of lora_B divided by that of lora_A, 16 in LoRA+ "
                   "(arXiv:2402.12354)",
           .min = 0.001,
           .max = 1000,
           .with = "enable_lora"});
    visit("training_lora", self.training_lora, MUST_MATCH,
          {.help = "FILE[:scale][,FILE...]: LoRA files that are merged into the model while an "
                   "adapter is trained, and are not part of what is saved or of `generate`; for "
                   "distilled models (schnell, Turbo)"});
    visit(
        "train_controlnet", self.train_controlnet, MUST_MATCH,
        {.help = "sd, sdxl: trains a ControlNet beside the frozen UNet, on clips with `control` in "
                 "metadata.jsonl: new (a copy of the UNet's encoder), or the folder, file or hub "
                 "id of one to go on from"});
    visit(
        "weights_storage", self.weights_storage, MAY_CHANGE,
        {.help =
             "storage of the transformer's linear weights on devices, in generate and under a "
             "trained adapter: weights_dtype, or int8 or float8 with one scale per output channel",
         .one_of = choices(self.weights_storage),
         .share = Share::YES});
    visit("weights_memory", self.weights_memory, UNRELATED,
          {.help = "placement of the blocks' weights in generate and under a trained adapter. "
                   "host: in host memory, each layer is fetched when it is used; streamed: "
                   "prefetched one layer ahead; no difference on CPUs",
           .one_of = choices(self.weights_memory)});
    visit(
        "use_qwix_quantization", self.use_qwix_quantization, MAY_CHANGE,
        {.help =
             "quantize the transformer's matmuls as `quantization` says, in training and sampling",
         .share = Share::YES});
    visit("quantization", self.quantization, MAY_CHANGE,
          {.help = "int8, fp8: quantize weights and activations with one scale per channel; "
                   "fp8_full: also gradients, one scale per tensor",
           .one_of = " | int8 | fp8 | fp8_full",
           .with = "use_qwix_quantization",
           .share = Share::YES});
    visit("qwix_module_path", self.qwix_module_path, MAY_CHANGE,
          {.help = "regular expression that must match the whole path of a quantized module "
                   "(blocks/attn1/query, blocks/ffn/proj_out, ...)",
           .with = "use_qwix_quantization",
           .share = Share::YES});
    visit("weight_quantization_calibration_method", self.weight_quantization_calibration_method,
          MAY_CHANGE,
          {.help = "fp8_full: range of weights: absmax, absmax,F, rms,F (F times the value) or "
                   "fixed,-B,B",
           .with = "use_qwix_quantization",
           .share = Share::YES});
    visit("act_quantization_calibration_method", self.act_quantization_calibration_method,
          MAY_CHANGE,
          {.help = "fp8_full: range of activations",
           .with = "use_qwix_quantization",
           .share = Share::YES});
    visit("bwd_quantization_calibration_method", self.bwd_quantization_calibration_method,
          MAY_CHANGE, {.help = "fp8_full: range of gradients", .with = "use_qwix_quantization"});
    visit("qwix_use_original_residuals", self.qwix_use_original_residuals, MAY_CHANGE,
          {.help = "int8, fp8: multiply gradients with the original operands, as in qwix 0.1.6 and "
                   "later, instead of the dequantized ones",
           .with = "use_qwix_quantization"});
  }
};

}  // namespace kinema::config
