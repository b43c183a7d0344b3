#pragma once

#include <cstdint>
#include <vector>

namespace kinema::unet {

/// The sizes of Stable Diffusion's UNets, under the names of diffusers' `config.json`; the defaults
/// are those of stable-diffusion-xl-base-1.0. Lists have one value per level, the
/// outermost first.
struct UNetConfig {
  int64_t in_channels = 4;
  int64_t out_channels = 4;
  std::vector<int64_t> block_out_channels{320, 640, 1280};
  /// Levels with transformers: `CrossAttnDownBlock2D`, not `DownBlock2D`.
  std::vector<bool> cross_attention{false, true, true};
  std::vector<int64_t> transformer_layers_per_block{1, 2, 10};
  /// Heads of each level. In files the key is `attention_head_dim`, despite its name.
  std::vector<int64_t> num_attention_heads{5, 10, 20};
  int64_t layers_per_block = 2;  // resnets of a level of the down path; the up path has one more
  int64_t cross_attention_dim = 2048;
  /// Of each of the six values of the time ids; 0: Stable Diffusion 1 and 2, which have neither
  /// these nor pooled text.
  int64_t addition_time_embed_dim = 256;
  int64_t projection_class_embeddings_input_dim = 2816;  // pooled text plus the embedded time ids
  /// Transformers are entered and left by linear layers on tokens; false: by convolutions of one
  /// pixel on feature maps (Stable Diffusion 1).
  bool use_linear_projection = true;
  int64_t norm_num_groups = 32;
  double norm_eps = 1e-5;
  /// Side of the latents that diffusers' pipelines use by default; kinema does not use it.
  int64_t sample_size = 128;

  /// original height, width; crop's top, left; target height, width.
  static constexpr int64_t kTimeIds = 6;

  int64_t levels() const { return static_cast<int64_t>(block_out_channels.size()); }
  bool has_addition() const { return projection_class_embeddings_input_dim > 0; }
  int64_t time_dim() const { return 4 * block_out_channels[0]; }
  int64_t pooled_dim() const {
    return projection_class_embeddings_input_dim - kTimeIds * addition_time_embed_dim;
  }
  bool operator==(const UNetConfig&) const = default;
};

/// Throws an Error with the key if a size is out of range or the sizes do not fit together.
void validate(const UNetConfig& config);

}  // namespace kinema::unet
