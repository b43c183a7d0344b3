#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/adapter_config.h"
#include "kinema/config/attention_config.h"
#include "kinema/config/choices.h"
#include "kinema/config/encoder_config.h"
#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// The names of values for remat_policy CUSTOM: those of all models, then, after `ffn_activation`,
/// MaxDiffusion's for Wan with image tokens and for Flux.
inline constexpr std::string_view kNamedValues =
    "hidden_states | attn_output | query_proj | key_proj | value_proj | xq_out | xk_out | "
    "ffn_activation | key_proj_text | value_proj_text | query_proj_img | key_proj_img | "
    "value_proj_img | img_qkv_proj | txt_qkv_proj | lin1_norm_hidden_states | lin2_hidden_states";

/// The networks: weights, dtypes, sizes and rematerialization, and the groups of keys that it
/// derives from.
struct ModelConfig : AttentionConfig, EncoderConfig, AdapterConfig {
  std::string pretrained_model_name_or_path = "Wan-AI/Wan2.1-T2V-14B-Diffusers";
  std::string revision;
  std::string wan_transformer_pretrained_model_name_or_path;
  std::vector<std::string> transformer_module;
  std::string model_name;
  ModelType model_type = ModelType::T2V;

  Dtype weights_dtype = Dtype::BFLOAT16;
  Dtype activations_dtype = Dtype::BFLOAT16;
  MatmulPrecision precision = MatmulPrecision::DEFAULT;
  bool train_new_flux = false;
  bool train_new_unet = false;
  std::string network_config;
  std::string lightning_repo;
  std::string lightning_ckpt;
  bool scan_layers = true;
  double dropout = 0.0;
  int64_t riflex_frequency = 0;

  std::string remat_policy = "NONE";
  std::vector<std::string> names_which_can_be_saved;
  std::vector<std::string> names_which_can_be_offloaded;

  // Sizes of a network from scratch, if pretrained_model_name_or_path is empty.
  Given<int64_t> num_layers = 30;
  Given<int64_t> num_attention_heads = 12;
  Given<int64_t> attention_head_dim = 128;
  Given<int64_t> ffn_dim = 8960;
  Given<int64_t> in_channels = 16;
  Given<int64_t> out_channels = 16;
  Given<int64_t> text_dim = 4096;
  Given<int64_t> freq_dim = 256;
  Given<std::vector<int64_t>> patch_size = std::vector<int64_t>{1, 2, 2};
  Given<int64_t> image_dim = 0;
  Given<int64_t> added_kv_proj_dim = 0;
  Given<int64_t> pos_embed_seq_len = 0;
  Given<int64_t> rope_max_seq_len = 1024;
  Given<double> eps = 1e-6;
  Given<bool> cross_attn_norm = true;
  double init_gate = 0.0;
  TextInit init_text = TextInit::NORMAL;

  bool operator==(const ModelConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    weights_fields(self, visit);
    AttentionConfig::fields(self, visit);
    scratch_fields(self, visit);
    EncoderConfig::fields(self, visit);
    AdapterConfig::fields(self, visit);
  }

 private:
  static constexpr std::string_view kDtypes = "float32 | bfloat16 | float16";
  static constexpr std::string_view kPretrained =
      "pretrained_model_name_or_path | wan_transformer_pretrained_model_name_or_path";

  template <typename Self, typename Visitor>
  static void weights_fields(Self& self, Visitor&& visit) {
    visit("pretrained_model_name_or_path", self.pretrained_model_name_or_path, MAY_CHANGE,
          {.help = "diffusers folder, hub id (org/name, org/name@revision) or gs:// path of the "
                   "model; empty: start from scratch with the architecture keys below",
           .share = Share::MODEL,
           .in_store = true,
           .reload = Reload::WEIGHTS});
    visit("revision", self.revision, MAY_CHANGE,
          {.help = "branch, tag or commit of models that are hub ids; empty: main",
           .share = Share::YES});
    visit("wan_transformer_pretrained_model_name_or_path",
          self.wan_transformer_pretrained_model_name_or_path, MAY_CHANGE,
          {.help = "folder, safetensors file, hub id or gs:// path of the transformer, instead of "
                   "the pipeline's",
           .share = Share::MODEL,
           .in_store = true});
    visit("transformer_module", self.transformer_module, MAY_CHANGE,
          {.help = "file with the tensors of a control branch alone (VACE modules), laid over the "
                   "transformer; of two experts [high noise, low noise]",
           .or_item = true,
           .share = Share::FILE});
    visit("model_name", self.model_name, MAY_CHANGE,
          {.help = "MaxDiffusion's name of a model; ignored, as the model's files identify it",
           .one_of = "| wan2.1 | wan2.2 | z_image",
           .share = Share::YES});
    visit(
        "model_type", self.model_type, MUST_MATCH,
        {.help =
             "conditioning of the video: text, image, or text with an optional first frame; T2I is "
             "MaxDiffusion's word for images",
         .one_of = choices(self.model_type),
         .needs = {Needs::VIDEOS},
         .share = Share::YES});
    visit("weights_dtype", self.weights_dtype, MAY_CHANGE,
          {.help = "dtype of the weights in matmuls; train_state_dtype is the dtype of the stored "
                   "parameters",
           .one_of = choices(Dtype{}),
           .share = Share::YES});
    visit("activations_dtype", self.activations_dtype, MAY_CHANGE,
          {.help = "dtype of activations", .one_of = choices(Dtype{}), .share = Share::YES});
    visit("precision", self.precision, MAY_CHANGE,
          {.help = "precision of float32 matmuls",
           .one_of = choices(self.precision),
           .share = Share::YES});
    visit("train_new_flux", self.train_new_flux, MAY_CHANGE,
          {.help = "start from random weights; take only the architecture and the other parts from "
                   "the model",
           .with = "pretrained_model_name_or_path"});
    visit("train_new_unet", self.train_new_unet, MAY_CHANGE,
          {.help = "same as train_new_flux", .with = "pretrained_model_name_or_path"});
    visit("network_config", self.network_config, MAY_CHANGE,
          {.help = "architecture for training from scratch: path of a config.json of a transformer "
                   "or UNet, instead of the keys below",
           .without = kPretrained});
    visit("lightning_repo", self.lightning_repo, MAY_CHANGE,
          {.help = "folder or hub id with lightning_ckpt, a few-step UNet; empty: none",
           .share = Share::MODEL});
    visit("lightning_ckpt", self.lightning_ckpt, MAY_CHANGE,
          {.help = "file of the few-step UNet", .with = "lightning_repo", .share = Share::YES});
    visit("scan_layers", self.scan_layers, MAY_CHANGE,
          {.help = "compile all blocks as one loop: compile time does not grow with depth",
           .share = Share::YES});
    visit("dropout", self.dropout, MAY_CHANGE,
          {.help = "dropout probability in the blocks, in training", .min = 0, .max = 0.999});
    visit(
        "riflex_frequency", self.riflex_frequency, MAY_CHANGE,
        {.help = "RIFLEx, for videos longer than 81 frames: number of the temporal RoPE frequency "
                 "that is lowered (Wan: 6); 0: off",
         .min = 0,
         .needs = {Needs::VIDEOS},
         .share = Share::YES});
    visit("remat_policy", self.remat_policy, MAY_CHANGE,
          {.help =
               "rematerialization policy: which activations are saved for the backward pass. "
               "FLUX_OPTIMIZED saves queries, keys, values and attention outputs of Flux's single "
               "blocks, and nothing of double blocks; for other models it is MATMUL_WITHOUT_BATCH",
           .one_of = "NONE | FULL | MATMUL_WITHOUT_BATCH | OFFLOAD_MATMUL_WITHOUT_BATCH | "
                     "HIDDEN_STATE_WITH_OFFLOAD | FLUX_OPTIMIZED | CUSTOM",
           .any_case = true});
    visit("names_which_can_be_saved", self.names_which_can_be_saved, MAY_CHANGE,
          {.help = "remat_policy CUSTOM: activations to save", .one_of = kNamedValues});
    visit("names_which_can_be_offloaded", self.names_which_can_be_offloaded, MAY_CHANGE,
          {.help = "remat_policy CUSTOM: activations to offload to host memory (on CPU: saved)",
           .one_of = kNamedValues});
  }

  template <typename Self, typename Visitor>
  static void scratch_fields(Self& self, Visitor&& visit) {
    visit("num_layers", self.num_layers, MUST_MATCH,
          {.help = "number of blocks",
           .min = 1,
           .max = 1000,
           .without = kPretrained,
           .share = Share::YES});
    visit("num_attention_heads", self.num_attention_heads, MUST_MATCH,
          {.help = "number of attention heads; the model width is heads * attention_head_dim",
           .min = 1,
           .max = 1024,
           .without = kPretrained,
           .share = Share::YES});
    visit("attention_head_dim", self.attention_head_dim, MUST_MATCH,
          {.help = "width of one head",
           .min = 6,
           .max = 1024,
           .multiple_of = 2,
           .without = kPretrained,
           .share = Share::YES});
    visit("ffn_dim", self.ffn_dim, MUST_MATCH,
          {.help = "width of the feed-forward layer",
           .min = 1,
           .max = 1 << 20,
           .without = kPretrained,
           .share = Share::YES});
    visit("in_channels", self.in_channels, MUST_MATCH,
          {.help = "channels of the model's input",
           .min = 1,
           .max = 1 << 16,
           .without = kPretrained,
           .share = Share::YES});
    visit("out_channels", self.out_channels, MUST_MATCH,
          {.help = "channels of the latents",
           .min = 1,
           .max = 1 << 16,
           .without = kPretrained,
           .share = Share::YES});
    visit("text_dim", self.text_dim, MUST_MATCH,
          {.help = "width of the text embeddings",
           .min = 1,
           .max = 1 << 20,
           .without = kPretrained,
           .share = Share::YES});
    visit("freq_dim", self.freq_dim, MUST_MATCH,
          {.help = "width of the sinusoidal timestep embedding",
           .min = 2,
           .max = 1 << 20,
           .multiple_of = 2,
           .without = kPretrained,
           .share = Share::YES});
    visit("patch_size", self.patch_size, MUST_MATCH,
          {.help = "patch size: frames, rows, columns per token",
           .min = 1,
           .max = 64,
           .items = 3,
           .without = kPretrained,
           .share = Share::YES});
    visit("image_dim", self.image_dim, MUST_MATCH,
          {.help = "width of the CLIP image embeddings (I2V 2.1)",
           .min = 0,
           .without = kPretrained,
           .share = Share::YES});
    visit("added_kv_proj_dim", self.added_kv_proj_dim, MUST_MATCH,
          {.help = "width of the image keys and values (I2V 2.1)",
           .min = 0,
           .without = kPretrained,
           .share = Share::YES});
    visit("pos_embed_seq_len", self.pos_embed_seq_len, MUST_MATCH,
          {.help = "length of the image position embeddings (first and last frame models)",
           .min = 0,
           .without = kPretrained,
           .share = Share::YES});
    visit("rope_max_seq_len", self.rope_max_seq_len, MUST_MATCH,
          {.help = "maximum RoPE positions per axis",
           .min = 1,
           .without = kPretrained,
           .share = Share::YES});
    visit(
        "eps", self.eps, MUST_MATCH,
        {.help = "epsilon of the norms", .above = 0, .without = kPretrained, .share = Share::YES});
    visit("cross_attn_norm", self.cross_attn_norm, MUST_MATCH,
          {.help = "apply a norm before cross-attention",
           .without = kPretrained,
           .share = Share::YES});
    visit("init_gate", self.init_gate, MUST_MATCH,
          {.help = "value added to both gates of each block's modulation at initialisation",
           .without = kPretrained});
    visit("init_text", self.init_text, MUST_MATCH,
          {.help = "initialisation of the text projection: N(0, 0.02) as in the official Wan code, "
                   "or Xavier-uniform",
           .one_of = choices(self.init_text),
           .without = kPretrained});
  }
};

}  // namespace kinema::config
