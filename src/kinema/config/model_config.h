#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/choices.h"
#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// The names of values for remat_policy CUSTOM: those of all models, then, after `ffn_activation`,
/// MaxDiffusion's for Wan with image tokens and for Flux.
inline constexpr std::string_view kNamedValues =
    "hidden_states | attn_output | query_proj | key_proj | value_proj | xq_out | xk_out | "
    "ffn_activation | key_proj_text | value_proj_text | query_proj_img | key_proj_img | "
    "value_proj_img | img_qkv_proj | txt_qkv_proj | lin1_norm_hidden_states | lin2_hidden_states";

/// The networks: weights, dtypes, sizes, rematerialization and kernels.
struct ModelConfig {
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
  std::string text_encoder_file;
  std::string text_encoder_2_file;
  std::string vae_file;
  std::string transformer_file;
  std::string comfyui_folder;
  int64_t max_sequence_length = 512;
  bool use_batched_text_encoder = false;

  std::string scheduler_dtype = "float32";

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
          {.help = "diffusers folder, hub id (org/name, org/name@revision) or gs:// path of the "
                   "model; empty: start from scratch with the architecture keys below",
           .share = Share::MODEL,
           .in_store = true});
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
  static void attention_fields(Self& self, Visitor&& visit) {
    visit("attention", self.attention, MAY_CHANGE,
          {.help =
               "attention implementation; the names of MaxDiffusion's kernels select the same kind",
           .one_of = "dot_product | flash | tokamax_flash | cudnn_flash_te | ring | tokamax_ring | "
                     "tokamax_ring_custom | ulysses | ulysses_custom | ulysses_custom_fixed_m | "
                     "ulysses_ring | ulysses_ring_custom | ulysses_ring_custom_fixed_m | "
                     "ulysses_ring_custom_bidir",
           .share = Share::YES});
    visit("flash_min_seq_length", self.flash_min_seq_length, MAY_CHANGE,
          {.help = "sequences shorter than this use dot_product", .min = 0, .share = Share::YES});
    visit("mask_padding_tokens", self.mask_padding_tokens, MAY_CHANGE,
          {.help = "mask out keys that only pad blocks or devices", .share = Share::YES});
    visit("split_head_dim", self.split_head_dim, MAY_CHANGE,
          {.help = "dot_product: keep heads as a separate axis; false: fold them into the batch",
           .share = Share::YES});
    visit("ulysses_shards", self.ulysses_shards, MAY_CHANGE,
          {.help = "ulysses_ring: number of devices that exchange heads; -1: derived from the mesh",
           .min = -1,
           .not_zero = true});
    visit("ulysses_attention_chunks", self.ulysses_attention_chunks, MAY_CHANGE,
          {.help = "ulysses: number of groups in which heads are exchanged", .min = 1});
    visit("attention_kernels", self.attention_kernels, MAY_CHANGE,
          {.help = "accelerators: use attention kernels; false: XLA operations"});
    visit("attention_gpu_kernel", self.attention_gpu_kernel, MAY_CHANGE,
          {.help = "attention kernel on NVIDIA GPUs; auto: cuDNN where it supports the shape, else "
                   "Triton, else blockwise; cudnn_fp8: cuDNN with an 8-bit forward pass",
           .one_of = choices(self.attention_gpu_kernel)});
    visit("norm_rotation_kernel", self.norm_rotation_kernel, MAY_CHANGE,
          {.help = "NVIDIA GPUs, sampling: fuse norm and RoPE of queries and keys into one kernel; "
                   "off where attention_kernels is false"});
    visit("use_base2_exp", self.use_base2_exp, MAY_CHANGE,
          {.help = "TPU attention kernels: use base-2 exponentials"});
    visit("use_experimental_scheduler", self.use_experimental_scheduler, MAY_CHANGE,
          {.help = "accepted and ignored: the compiler's default scheduler is used"});
    visit(
        "flash_block_sizes", self.flash_block_sizes, MAY_CHANGE,
        {.help = "block sizes of queries and keys in attention kernels (docs/guides/attention.md)",
         .share = Share::YES});
    visit("enable_tile_search", self.enable_tile_search, UNRELATED,
          {.help = "autotune attention block sizes before the run: by time on the device; in plans "
                   "by the compiler's schedule"});
    visit("tile_search_mode", self.tile_search_mode, UNRELATED,
          {.help = "block sizes to try", .one_of = "smart | full", .with = "enable_tile_search"});
    visit("tile_search_iters", self.tile_search_iters, UNRELATED,
          {.help = "timed runs per block size", .min = 1, .with = "enable_tile_search"});
    visit("tile_search_out", self.tile_search_out, UNRELATED,
          {.help = "folder for the table of results", .with = "enable_tile_search"});
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

  template <typename Self, typename Visitor>
  static void encoder_fields(Self& self, Visitor&& visit) {
    visit("autoencoder", self.autoencoder, MUST_MATCH,
          {.help = "wan: the VAE of the pipeline, whatever its family; space_to_depth: lossless, "
                   "moves blocks of pixels into channels",
           .one_of = choices(self.autoencoder),
           .share = Share::YES});
    visit("space_to_depth_block", self.space_to_depth_block, MUST_MATCH,
          {.help = "rows and columns of a block", .min = 1, .max = 64, .share = Share::YES});
    visit("space_to_depth_temporal", self.space_to_depth_temporal, MUST_MATCH,
          {.help = "frames of a block", .min = 1, .max = 16, .share = Share::YES});
    visit("space_to_depth_regions", self.space_to_depth_regions, MUST_MATCH,
          {.help = "regions per side of a frame that are stacked as channels",
           .min = 1,
           .max = 16,
           .share = Share::YES});
    visit("space_to_depth_temporal_regions", self.space_to_depth_temporal_regions, MUST_MATCH,
          {.help = "sections of a clip that are stacked as channels",
           .min = 1,
           .max = 16,
           .share = Share::YES});
    visit("space_to_depth_mean", self.space_to_depth_mean, MUST_MATCH,
          {.help = "subtracted from pixels in [-1, 1]", .share = Share::YES});
    visit("space_to_depth_std", self.space_to_depth_std, MUST_MATCH,
          {.help = "divisor after subtracting the mean, so that latents have unit variance",
           .above = 0,
           .share = Share::YES});
    visit("wan_vae_pretrained_model_name_or_path", self.wan_vae_pretrained_model_name_or_path,
          MAY_CHANGE,
          {.help = "folder of the VAE alone; empty: vae/ of pretrained_model_name_or_path",
           .share = Share::MODEL,
           .in_store = true});
    visit("vae_weights_dtype", self.vae_weights_dtype, MAY_CHANGE,
          {.help = "dtype of the VAE's weights", .one_of = choices(Dtype{}), .share = Share::YES});
    visit("vae_dtype", self.vae_dtype, MAY_CHANGE,
          {.help = "dtype of the VAE's activations",
           .one_of = choices(Dtype{}),
           .share = Share::YES});
    visit("replicate_vae", self.replicate_vae, UNRELATED,
          {.help = "mesh: keep all VAE parameters on every device"});
    visit("vae_decode_chunk", self.vae_decode_chunk, UNRELATED,
          {.help = "latent frames to decode at a time after the first; -1: all. Changes memory and "
                   "speed, not the result",
           .min = -1,
           .not_zero = true,
           .needs = {Needs::VIDEOS},
           .share = Share::YES});
    visit("vae_encode_chunk", self.vae_encode_chunk, UNRELATED,
          {.help = "frames to encode at a time after the first; -1: all",
           .min = -1,
           .not_zero = true,
           .multiple_of = 4,
           .needs = {Needs::VIDEOS}});
    visit("vae_tiling", self.vae_tiling, MAY_CHANGE,
          {.help = "decode and encode large frames in overlapping tiles: less memory, slightly "
                   "different result",
           .share = Share::YES});
    visit("vae_tile_height", self.vae_tile_height, MAY_CHANGE,
          {.help = "height of a tile in pixels",
           .min = 1,
           .with = "vae_tiling",
           .share = Share::YES});
    visit(
        "vae_tile_width", self.vae_tile_width, MAY_CHANGE,
        {.help = "width of a tile in pixels", .min = 1, .with = "vae_tiling", .share = Share::YES});
    visit("vae_tile_stride_height", self.vae_tile_stride_height, MAY_CHANGE,
          {.help = "rows between the starts of neighbouring tiles",
           .min = 1,
           .with = "vae_tiling",
           .share = Share::YES});
    visit("vae_tile_stride_width", self.vae_tile_stride_width, MAY_CHANGE,
          {.help = "columns between the starts of neighbouring tiles",
           .min = 1,
           .with = "vae_tiling",
           .share = Share::YES});
    visit("vae_spatial", self.vae_spatial, UNRELATED,
          {.help = "number of devices that split a VAE frame by columns; -1: all",
           .min = -1,
           .not_zero = true});
    visit("text_encoder", self.text_encoder, MUST_MATCH,
          {.help = "umt5: the text encoders of the pipeline, whatever its family; hashed: a fixed "
                   "random vector per word",
           .one_of = choices(self.text_encoder),
           .share = Share::YES});
    visit("wan_text_encoder_pretrained_model_name_or_path",
          self.wan_text_encoder_pretrained_model_name_or_path, MAY_CHANGE,
          {.help = "folder with text_encoder/ and tokenizer/; empty: "
                   "pretrained_model_name_or_path",
           .share = Share::MODEL,
           .in_store = true});
    visit("text_encoder_file", self.text_encoder_file, MAY_CHANGE,
          {.help = "single file with a text encoder, as ComfyUI's: clip_l, umt5_xxl, or both of a "
                   "pipeline in one file; its tokenizer is in the file or the pipeline's",
           .share = Share::MODEL});
    visit("text_encoder_2_file", self.text_encoder_2_file, MAY_CHANGE,
          {.help = "single file with the second text encoder: clip_g of sdxl, t5xxl of flux",
           .share = Share::MODEL});
    visit("vae_file", self.vae_file, UNRELATED,
          {.help = "single file with an autoencoder, for "
                   "wan_vae_pretrained_model_name_or_path"});
    visit("transformer_file", self.transformer_file, UNRELATED,
          {.help = "single file with a transformer or UNet, for "
                   "wan_transformer_pretrained_model_name_or_path"});
    visit(
        "comfyui_folder", self.comfyui_folder, UNRELATED,
        {.help = "ComfyUI's `models` folder: model and LoRA files that are not found by their path "
                 "are searched by name in its subfolders"});
    visit(
        "text_encoder_dtype", self.text_encoder_dtype, MAY_CHANGE,
        {.help =
             "dtype of the text encoder; float16 is not supported, because UMT5 exceeds its range",
         .one_of = choices(Dtype{}),
         .share = Share::YES});
    visit("text_encoder_memory", self.text_encoder_memory, UNRELATED,
          {.help = "resident: all blocks stay on the device; streamed: two blocks at a time are "
                   "read from the files; auto: streamed, unless the encoder is used again and fits "
                   "into two thirds of the free memory",
           .one_of = "auto | resident | streamed"});
    visit("max_sequence_length", self.max_sequence_length, MAY_CHANGE,
          {.help = "number of text tokens; shorter prompts are padded with zeros",
           .min = 1,
           .max = 65536,
           .needs = {Needs::TEXT_LENGTH},
           .share = Share::YES});
    visit("use_batched_text_encoder", self.use_batched_text_encoder, UNRELATED,
          {.help = "encode several prompts in one batch"});
    visit("scheduler_dtype", self.scheduler_dtype, UNRELATED,
          {.help = "dtype of the sampler's arithmetic", .one_of = kDtypes, .later = "that dtype"});
  }

  template <typename Self, typename Visitor>
  static void adapter_fields(Self& self, Visitor&& visit) {
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
           .share = Share::FILE});
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
