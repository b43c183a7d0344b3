#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/choices.h"
#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// Autoencoders and text encoders, and the single files of a model.
struct EncoderConfig {
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
  std::string tokenizer_folder;
  std::string comfyui_folder;
  int64_t max_sequence_length = 512;
  bool use_batched_text_encoder = false;

  std::string scheduler_dtype = "float32";

  bool operator==(const EncoderConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
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
    visit("tokenizer_folder", self.tokenizer_folder, MAY_CHANGE,
          {.help = "folder with tokenizer/ (and tokenizer_2/), such as a pipeline's, for "
                   "checkpoints and text encoders in single files; empty: beside them",
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

 private:
  static constexpr std::string_view kDtypes = "float32 | bfloat16 | float16";
};

}  // namespace kinema::config
