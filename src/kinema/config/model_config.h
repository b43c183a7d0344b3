#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/choices.h"
#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// The names of values that remat_policy CUSTOM keeps: every model's, and after `ffn_activation`
/// MaxDiffusion's of Wan with image tokens and of Flux.
inline constexpr std::string_view kNamedValues =
    "hidden_states | attn_output | query_proj | key_proj | value_proj | xq_out | xk_out | "
    "ffn_activation | key_proj_text | value_proj_text | query_proj_img | key_proj_img | "
    "value_proj_img | img_qkv_proj | txt_qkv_proj | lin1_norm_hidden_states | lin2_hidden_states";

/// The networks: which weights, which precision, how they are laid out and remembered.
struct ModelConfig {
  std::string pretrained_model_name_or_path = "Wan-AI/Wan2.1-T2V-14B-Diffusers";
  std::string revision;
  std::string wan_transformer_pretrained_model_name_or_path;
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

  std::string attention = "flash";
  int64_t flash_min_seq_length = 4096;
  bool mask_padding_tokens = true;
  bool split_head_dim = true;
  int64_t ulysses_shards = -1;
  int64_t ulysses_attention_chunks = 1;
  bool attention_kernels = true;
  GpuAttentionKernel attention_gpu_kernel = GpuAttentionKernel::AUTO;
  bool norm_rotation_kernel = true;
  bool use_base2_exp = true;
  bool use_experimental_scheduler = true;
  Given<Tree> flash_block_sizes =
      Tree{R"({"block_q": 512, "block_kv_compute": 512, "block_kv": 512, "block_q_dkv": 512, )"
           R"("block_kv_dkv": 512, "block_kv_dkv_compute": 512, "block_q_dq": 512, )"
           R"("block_kv_dq": 512, "use_fused_bwd_kernel": false})"};
  bool enable_tile_search = false;
  std::string tile_search_mode = "smart";
  int64_t tile_search_iters = 10;
  std::string tile_search_out;

  std::string remat_policy = "NONE";
  std::vector<std::string> names_which_can_be_saved;
  std::vector<std::string> names_which_can_be_offloaded;

  // From scratch: used when pretrained_model_name_or_path is empty.
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

  Autoencoder autoencoder = Autoencoder::WAN;
  int64_t space_to_depth_block = 8;
  int64_t space_to_depth_temporal = 1;
  int64_t space_to_depth_regions = 1;
  int64_t space_to_depth_temporal_regions = 1;
  double space_to_depth_mean = 0.0;
  double space_to_depth_std = 1.0;
  std::string wan_vae_pretrained_model_name_or_path;
  Dtype vae_weights_dtype = Dtype::FLOAT32;
  Dtype vae_dtype = Dtype::FLOAT32;
  bool replicate_vae = false;
  int64_t vae_decode_chunk = 1;
  int64_t vae_encode_chunk = 4;
  int64_t vae_spatial = -1;
  bool vae_tiling = false;
  int64_t vae_tile_height = 256;
  int64_t vae_tile_width = 256;
  int64_t vae_tile_stride_height = 192;
  int64_t vae_tile_stride_width = 192;

  TextEncoder text_encoder = TextEncoder::UMT5;
  Dtype text_encoder_dtype = Dtype::FLOAT32;
  std::string text_encoder_memory = "auto";
  std::string wan_text_encoder_pretrained_model_name_or_path;
  int64_t max_sequence_length = 512;
  bool use_batched_text_encoder = false;

  std::string scheduler_dtype = "float32";

  std::string lora;
  bool enable_lora = false;
  Tree lora_config;
  LoraMode lora_mode = LoraMode::MERGE;
  Given<int64_t> lora_rank = 16;
  Given<double> lora_alpha = 0.0;
  std::vector<std::string> lora_target_modules{"attention"};
  double lora_dropout = 0.0;
  bool use_rslora = false;
  LoraInit lora_init = LoraInit::KAIMING;
  WeightsStorage weights_storage = WeightsStorage::FLOATS;
  WeightsMemory weights_memory = WeightsMemory::DEVICE;
  bool use_qwix_quantization = false;
  std::string quantization;
  std::string qwix_module_path = ".*";
  std::string weight_quantization_calibration_method = "absmax";
  std::string act_quantization_calibration_method = "absmax";
  std::string bwd_quantization_calibration_method = "absmax";
  bool qwix_use_original_residuals = false;

  bool operator==(const ModelConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    weights_fields(self, visit);
    attention_fields(self, visit);
    scratch_fields(self, visit);
    encoder_fields(self, visit);
    adapter_fields(self, visit);
  }

 private:
  static constexpr std::string_view kDtypes = "float32 | bfloat16 | float16";
  static constexpr std::string_view kPretrained =
      "pretrained_model_name_or_path | wan_transformer_pretrained_model_name_or_path";

  template <typename Self, typename Visitor>
  static void weights_fields(Self& self, Visitor&& visit) {
    visit("pretrained_model_name_or_path", self.pretrained_model_name_or_path, MAY_CHANGE,
          {.help = "diffusers folder, hub id (org/name, org/name@revision) or gs:// path to start "
                   "from; empty: from scratch, from the keys below",
           .share = Share::MODEL});
    visit("revision", self.revision, MAY_CHANGE,
          {.help = "branch, tag or commit of models that are hub ids; empty: main",
           .share = Share::YES});
    visit("wan_transformer_pretrained_model_name_or_path",
          self.wan_transformer_pretrained_model_name_or_path, MAY_CHANGE,
          {.help = "another folder, safetensors file, hub id or gs:// path for the transformer",
           .share = Share::MODEL});
    visit("model_name", self.model_name, MAY_CHANGE,
          {.help = "MaxDiffusion's name for a Wan model; a note, as its files say what it is",
           .one_of = "| wan2.1 | wan2.2",
           .share = Share::YES});
    visit("model_type", self.model_type, MUST_MATCH,
          {.help = "what conditions the video",
           .one_of = choices(self.model_type),
           .needs = {Needs::VIDEOS},
           .share = Share::YES});
    visit("weights_dtype", self.weights_dtype, MAY_CHANGE,
          {.help =
               "dtype that the step's matmuls read weights in; what is kept is train_state_dtype's",
           .one_of = choices(Dtype{}),
           .share = Share::YES});
    visit("activations_dtype", self.activations_dtype, MAY_CHANGE,
          {.help = "dtype of activations", .one_of = choices(Dtype{}), .share = Share::YES});
    visit("precision", self.precision, MAY_CHANGE,
          {.help = "precision of float32 matmuls",
           .one_of = choices(self.precision),
           .share = Share::YES});
    visit("train_new_flux", self.train_new_flux, MAY_CHANGE,
          {.help = "random weights in place of the model's, whose sizes and other parts are kept",
           .with = "pretrained_model_name_or_path"});
    visit("train_new_unet", self.train_new_unet, MAY_CHANGE,
          {.help = "the same: both are for models of any family",
           .with = "pretrained_model_name_or_path"});
    visit("network_config", self.network_config, MAY_CHANGE,
          {.help =
               "from scratch: a config.json of a transformer or UNet, in place of the sizes below",
           .without = kPretrained});
    visit("lightning_repo", self.lightning_repo, MAY_CHANGE,
          {.help = "folder or hub id that holds lightning_ckpt, a UNet for few steps; empty: none",
           .share = Share::MODEL});
    visit("lightning_ckpt", self.lightning_ckpt, MAY_CHANGE,
          {.help = "its file", .with = "lightning_repo", .share = Share::YES});
    visit("scan_layers", self.scan_layers, MAY_CHANGE,
          {.help = "one loop over the blocks: compile time does not grow with depth",
           .share = Share::YES});
    visit("dropout", self.dropout, MAY_CHANGE,
          {.help = "share of the blocks' outputs dropped in training", .min = 0, .max = 0.999});
    visit("remat_policy", self.remat_policy, MAY_CHANGE,
          {.help = "what the forward pass keeps for the backward pass; FLUX_OPTIMIZED: of Flux's "
                   "single blocks queries, keys, values and attention's result, of double blocks "
                   "nothing; in other models MATMUL_WITHOUT_BATCH",
           .one_of = "NONE | FULL | MATMUL_WITHOUT_BATCH | OFFLOAD_MATMUL_WITHOUT_BATCH | "
                     "HIDDEN_STATE_WITH_OFFLOAD | FLUX_OPTIMIZED | CUSTOM",
           .any_case = true});
    visit("names_which_can_be_saved", self.names_which_can_be_saved, MAY_CHANGE,
          {.help = "remat_policy CUSTOM: values kept", .one_of = kNamedValues});
    visit("names_which_can_be_offloaded", self.names_which_can_be_offloaded, MAY_CHANGE,
          {.help = "remat_policy CUSTOM: values kept in host memory (on CPU: kept)",
           .one_of = kNamedValues});
  }

  template <typename Self, typename Visitor>
  static void attention_fields(Self& self, Visitor&& visit) {
    visit("attention", self.attention, MAY_CHANGE,
          {.help = "how attention is computed; names of kernels stand for their kind",
           .one_of = "dot_product | flash | tokamax_flash | cudnn_flash_te | ring | tokamax_ring | "
                     "tokamax_ring_custom | ulysses | ulysses_custom | ulysses_custom_fixed_m | "
                     "ulysses_ring | ulysses_ring_custom | ulysses_ring_custom_fixed_m | "
                     "ulysses_ring_custom_bidir",
           .share = Share::YES});
    visit("flash_min_seq_length", self.flash_min_seq_length, MAY_CHANGE,
          {.help = "shorter sequences take dot_product", .min = 0, .share = Share::YES});
    visit("mask_padding_tokens", self.mask_padding_tokens, MAY_CHANGE,
          {.help = "keys that only fill up blocks or devices are left out", .share = Share::YES});
    visit("split_head_dim", self.split_head_dim, MAY_CHANGE,
          {.help = "dot_product: heads stay an axis; false folds them into the batch",
           .share = Share::YES});
    visit("ulysses_shards", self.ulysses_shards, MAY_CHANGE,
          {.help = "ulysses_ring: devices that exchange heads; -1: not given",
           .min = -1,
           .not_zero = true});
    visit("ulysses_attention_chunks", self.ulysses_attention_chunks, MAY_CHANGE,
          {.help = "ulysses: heads are exchanged in this many groups", .min = 1});
    visit("attention_kernels", self.attention_kernels, MAY_CHANGE,
          {.help = "on accelerators attention in blocks is done by kernels; false: by the "
                   "compiler's own operations"});
    visit("attention_gpu_kernel", self.attention_gpu_kernel, MAY_CHANGE,
          {.help = "on NVIDIA GPUs, whose kernel that is; auto: cuDNN's where it takes the shape, "
                   "else Triton's, else blockwise; cudnn_fp8: cuDNN's, forward in 8 bits",
           .one_of = choices(self.attention_gpu_kernel)});
    visit("norm_rotation_kernel", self.norm_rotation_kernel, MAY_CHANGE,
          {.help = "on NVIDIA GPUs sampling does norm and rotation of queries and keys in one "
                   "kernel; false, or attention_kernels false: by the compiler's own operations"});
    visit("use_base2_exp", self.use_base2_exp, MAY_CHANGE,
          {.help = "TPU attention kernels compute powers of two"});
    visit(
        "use_experimental_scheduler", self.use_experimental_scheduler, MAY_CHANGE,
        {.help = "accepted; TPU kernels are put in order by the default scheduler, whose order is "
                 "the faster one by the compiler's own estimates"});
    visit("flash_block_sizes", self.flash_block_sizes, MAY_CHANGE,
          {.help = "queries and keys that are worked on together (docs/guides/attention.md)",
           .share = Share::YES});
    visit("enable_tile_search", self.enable_tile_search, UNRELATED,
          {.help = "compare block sizes first: by time on the device, in plans by the schedule"});
    visit("tile_search_mode", self.tile_search_mode, UNRELATED,
          {.help = "which block sizes", .one_of = "smart | full", .with = "enable_tile_search"});
    visit("tile_search_iters", self.tile_search_iters, UNRELATED,
          {.help = "runs per block size", .min = 1, .with = "enable_tile_search"});
    visit("tile_search_out", self.tile_search_out, UNRELATED,
          {.help = "folder of the search's table", .with = "enable_tile_search"});
  }

  template <typename Self, typename Visitor>
  static void scratch_fields(Self& self, Visitor&& visit) {
    visit("num_layers", self.num_layers, MUST_MATCH,
          {.help = "blocks", .min = 1, .max = 1000, .without = kPretrained, .share = Share::YES});
    visit("num_attention_heads", self.num_attention_heads, MUST_MATCH,
          {.help = "heads; the width is heads * attention_head_dim",
           .min = 1,
           .max = 1024,
           .without = kPretrained,
           .share = Share::YES});
    visit("attention_head_dim", self.attention_head_dim, MUST_MATCH,
          {.help = "width of a head",
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
          {.help = "width of the text states",
           .min = 1,
           .max = 1 << 20,
           .without = kPretrained,
           .share = Share::YES});
    visit("freq_dim", self.freq_dim, MUST_MATCH,
          {.help = "width of the time sinusoid",
           .min = 2,
           .max = 1 << 20,
           .multiple_of = 2,
           .without = kPretrained,
           .share = Share::YES});
    visit("patch_size", self.patch_size, MUST_MATCH,
          {.help = "frames, rows, columns of a token",
           .min = 1,
           .max = 64,
           .items = 3,
           .without = kPretrained,
           .share = Share::YES});
    visit("image_dim", self.image_dim, MUST_MATCH,
          {.help = "width of image states (I2V 2.1)",
           .min = 0,
           .without = kPretrained,
           .share = Share::YES});
    visit("added_kv_proj_dim", self.added_kv_proj_dim, MUST_MATCH,
          {.help = "width of the image keys and values (I2V 2.1)",
           .min = 0,
           .without = kPretrained,
           .share = Share::YES});
    visit("pos_embed_seq_len", self.pos_embed_seq_len, MUST_MATCH,
          {.help = "length of the image position table (first-last-frame)",
           .min = 0,
           .without = kPretrained,
           .share = Share::YES});
    visit("rope_max_seq_len", self.rope_max_seq_len, MUST_MATCH,
          {.help = "longest axis", .min = 1, .without = kPretrained, .share = Share::YES});
    visit(
        "eps", self.eps, MUST_MATCH,
        {.help = "epsilon of the norms", .above = 0, .without = kPretrained, .share = Share::YES});
    visit("cross_attn_norm", self.cross_attn_norm, MUST_MATCH,
          {.help = "norm before cross-attention", .without = kPretrained, .share = Share::YES});
    visit("init_gate", self.init_gate, MUST_MATCH,
          {.help = "added to both gates of every block's modulation at initialisation",
           .without = kPretrained});
    visit("init_text", self.init_text, MUST_MATCH,
          {.help = "how the text embedding starts: N(0, 0.02) as official Wan, or Xavier-uniform",
           .one_of = choices(self.init_text),
           .without = kPretrained});
  }

  template <typename Self, typename Visitor>
  static void encoder_fields(Self& self, Visitor&& visit) {
    visit("autoencoder", self.autoencoder, MUST_MATCH,
          {.help = "wan: the pipeline's VAE, of whichever family; space_to_depth: blocks of pixels "
                   "as channels, without loss",
           .one_of = choices(self.autoencoder),
           .share = Share::YES});
    visit("space_to_depth_block", self.space_to_depth_block, MUST_MATCH,
          {.help = "rows and columns of a block", .min = 1, .max = 64, .share = Share::YES});
    visit("space_to_depth_temporal", self.space_to_depth_temporal, MUST_MATCH,
          {.help = "frames of a block", .min = 1, .max = 16, .share = Share::YES});
    visit(
        "space_to_depth_regions", self.space_to_depth_regions, MUST_MATCH,
        {.help = "parts of the picture, along each side, that lie on top of each other as channels",
         .min = 1,
         .max = 16,
         .share = Share::YES});
    visit("space_to_depth_temporal_regions", self.space_to_depth_temporal_regions, MUST_MATCH,
          {.help = "stretches of the clip that lie on top of each other",
           .min = 1,
           .max = 16,
           .share = Share::YES});
    visit("space_to_depth_mean", self.space_to_depth_mean, MUST_MATCH,
          {.help = "subtracted from pixels in [-1, 1]", .share = Share::YES});
    visit("space_to_depth_std", self.space_to_depth_std, MUST_MATCH,
          {.help = "divides what is left, so that latents have unit variance",
           .above = 0,
           .share = Share::YES});
    visit("wan_vae_pretrained_model_name_or_path", self.wan_vae_pretrained_model_name_or_path,
          MAY_CHANGE,
          {.help = "folder of the VAE alone; empty: vae/ of pretrained_model_name_or_path",
           .share = Share::MODEL});
    visit("vae_weights_dtype", self.vae_weights_dtype, MAY_CHANGE,
          {.help = "dtype of the VAE's weights", .one_of = choices(Dtype{}), .share = Share::YES});
    visit("vae_dtype", self.vae_dtype, MAY_CHANGE,
          {.help = "dtype of the VAE's activations",
           .one_of = choices(Dtype{}),
           .share = Share::YES});
    visit("replicate_vae", self.replicate_vae, UNRELATED,
          {.help = "over a mesh, every device holds all of the VAE's parameters"});
    visit("vae_decode_chunk", self.vae_decode_chunk, UNRELATED,
          {.help = "latent frames decoded at once behind the first; -1: all. Changes memory and "
                   "speed, not the result",
           .min = -1,
           .not_zero = true,
           .needs = {Needs::VIDEOS},
           .share = Share::YES});
    visit("vae_encode_chunk", self.vae_encode_chunk, UNRELATED,
          {.help = "frames encoded at once behind the first; -1: all",
           .min = -1,
           .not_zero = true,
           .multiple_of = 4,
           .needs = {Needs::VIDEOS}});
    visit("vae_tiling", self.vae_tiling, MAY_CHANGE,
          {.help = "cut videos and images larger than a tile into tiles that overlap: less memory, "
                   "a slightly "
                   "different picture",
           .share = Share::YES});
    visit(
        "vae_tile_height", self.vae_tile_height, MAY_CHANGE,
        {.help = "rows of a tile, in pixels", .min = 1, .with = "vae_tiling", .share = Share::YES});
    visit("vae_tile_width", self.vae_tile_width, MAY_CHANGE,
          {.help = "columns of a tile", .min = 1, .with = "vae_tiling", .share = Share::YES});
    visit("vae_tile_stride_height", self.vae_tile_stride_height, MAY_CHANGE,
          {.help = "rows from one tile to the next",
           .min = 1,
           .with = "vae_tiling",
           .share = Share::YES});
    visit("vae_tile_stride_width", self.vae_tile_stride_width, MAY_CHANGE,
          {.help = "columns from one tile to the next",
           .min = 1,
           .with = "vae_tiling",
           .share = Share::YES});
    visit("vae_spatial", self.vae_spatial, UNRELATED,
          {.help = "devices that share a frame of the VAE, by columns; -1: all",
           .min = -1,
           .not_zero = true});
    visit(
        "text_encoder", self.text_encoder, MUST_MATCH,
        {.help = "umt5: the pipeline's text encoders, of whichever family; hashed: a fixed random "
                 "vector per word of the caption",
         .one_of = choices(self.text_encoder),
         .share = Share::YES});
    visit("wan_text_encoder_pretrained_model_name_or_path",
          self.wan_text_encoder_pretrained_model_name_or_path, MAY_CHANGE,
          {.help = "folder with text_encoder/ and tokenizer/; empty: "
                   "pretrained_model_name_or_path",
           .share = Share::MODEL});
    visit(
        "text_encoder_dtype", self.text_encoder_dtype, MAY_CHANGE,
        {.help = "dtype of the text encoder; not float16, whose range UMT5 leaves: bfloat16 takes "
                 "as little memory",
         .one_of = choices(Dtype{}),
         .share = Share::YES});
    visit("text_encoder_memory", self.text_encoder_memory, UNRELATED,
          {.help = "resident: all its blocks are on the device; streamed: two at a time, read from "
                   "the files as they are needed; auto: streamed, unless it is used again and "
                   "two thirds of the free memory hold it",
           .one_of = "auto | resident | streamed"});
    visit("max_sequence_length", self.max_sequence_length, MAY_CHANGE,
          {.help = "text tokens; shorter prompts are padded with zeros",
           .min = 1,
           .max = 65536,
           .needs = {Needs::TEXT_LENGTH},
           .share = Share::YES});
    visit("use_batched_text_encoder", self.use_batched_text_encoder, UNRELATED,
          {.help = "several prompts in one run of the text encoder"});
    visit("scheduler_dtype", self.scheduler_dtype, UNRELATED,
          {.help = "dtype of the sampler's arithmetic", .one_of = kDtypes, .later = "that dtype"});
  }

  template <typename Self, typename Visitor>
  static void adapter_fields(Self& self, Visitor&& visit) {
    visit(
        "lora", self.lora, UNRELATED,
        {.help = "FILE[:scale][,FILE...]: LoRA files after those of lora_config, and enable_lora, "
                 "in a short form"});
    visit("enable_lora", self.enable_lora, MUST_MATCH,
          {.help =
               "train: an adapter, the model itself stays as it is; generate: with the LoRA files "
               "of lora_config",
           .share = Share::YES});
    visit("lora_config", self.lora_config, MAY_CHANGE,
          {.help = "LoRA files as lists, an item an adapter: lora_model_name_or_path, weight_name "
                   "(or high_noise_weight_name, low_noise_weight_name), adapter_name, scale; train "
                   "goes on from the first and merges the others. rank, lora_alpha, "
                   "lora_target_modules, lora_dropout, use_rslora and init may stand here too",
           .with = "enable_lora",
           .share = Share::FILE});
    visit("lora_mode", self.lora_mode, MAY_CHANGE,
          {.help = "merge: into the weights as they are loaded; apply: low-rank matmuls stay "
                   "beside the weights, which keep their values",
           .one_of = choices(self.lora_mode),
           .with = "enable_lora",
           .share = Share::YES});
    visit(
        "lora_rank", self.lora_rank, MUST_MATCH,
        {.help = "rank of the adapter that is trained; not given: that of the file it goes on from",
         .min = 1,
         .max = 4096,
         .with = "enable_lora"});
    visit("lora_alpha", self.lora_alpha, MUST_MATCH,
          {.help =
               "the adapter counts lora_alpha / lora_rank times; 0: lora_rank, or that of the file "
               "it goes on from",
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
    visit("lora_dropout", self.lora_dropout, MAY_CHANGE,
          {.help = "share of an adapter's inputs that a training step leaves out",
           .min = 0,
           .max = 0.99,
           .with = "enable_lora"});
    visit("use_rslora", self.use_rslora, MUST_MATCH,
          {.help = "lora_alpha is divided by the root of lora_rank (arXiv:2312.03732)",
           .with = "enable_lora"});
    visit("lora_init", self.lora_init, UNRELATED,
          {.help = "how lora_A begins, as in PEFT: kaiming, uniform within 1 / sqrt(inputs), or "
                   "gaussian, of deviation 1 / lora_rank; lora_B is 0",
           .one_of = choices(self.lora_init),
           .with = "enable_lora"});
    visit("weights_storage", self.weights_storage, MAY_CHANGE,
          {.help = "what the transformer's linear weights are kept in on the devices, in generate "
                   "and under an adapter that is trained: "
                   "weights_dtype, or codes of one byte with a scale an output",
           .one_of = choices(self.weights_storage),
           .share = Share::YES});
    visit("weights_memory", self.weights_memory, UNRELATED,
          {.help = "where the blocks' weights wait, in generate and under an adapter that is "
                   "trained; host: in host memory, from which each layer is fetched when it is "
                   "used; streamed: a layer ahead; on CPUs all are the same",
           .one_of = choices(self.weights_memory)});
    visit("use_qwix_quantization", self.use_qwix_quantization, MAY_CHANGE,
          {.help = "the transformer's matrix products as `quantization` says, in training and "
                   "sampling",
           .share = Share::YES});
    visit("quantization", self.quantization, MAY_CHANGE,
          {.help = "int8, fp8: weights and activations as such codes, a scale a channel; fp8_full: "
                   "gradients too, a scale a tensor",
           .one_of = " | int8 | fp8 | fp8_full",
           .with = "use_qwix_quantization",
           .share = Share::YES});
    visit("qwix_module_path", self.qwix_module_path, MAY_CHANGE,
          {.help = "regular expression that the whole path of a quantized module matches "
                   "(blocks/attn1/query, blocks/ffn/proj_out, ...)",
           .with = "use_qwix_quantization",
           .share = Share::YES});
    visit("weight_quantization_calibration_method", self.weight_quantization_calibration_method,
          MAY_CHANGE,
          {.help = "fp8_full: up to where codes of weights reach: absmax, absmax,F, rms,F (F times "
                   "what is found) or fixed,-B,B",
           .with = "use_qwix_quantization",
           .share = Share::YES});
    visit("act_quantization_calibration_method", self.act_quantization_calibration_method,
          MAY_CHANGE,
          {.help = "fp8_full: the same of activations",
           .with = "use_qwix_quantization",
           .share = Share::YES});
    visit("bwd_quantization_calibration_method", self.bwd_quantization_calibration_method,
          MAY_CHANGE, {.help = "fp8_full: the same of gradients", .with = "use_qwix_quantization"});
    visit("qwix_use_original_residuals", self.qwix_use_original_residuals, MAY_CHANGE,
          {.help = "int8, fp8: gradients multiply with the operands themselves, as qwix 0.1.6 and "
                   "later does, not with what their codes stand for",
           .with = "use_qwix_quantization"});
  }
};

}  // namespace kinema::config
