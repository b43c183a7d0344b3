#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kinema::wan {

/// Text tokens in training of models with image keys (Wan 2.1 image-to-video): the last 512 tokens
/// of their context are text.
inline constexpr int64_t kImageModelText = 512;

/// The sizes of what Wan-Animate has in addition.
struct AnimateConfig {
  int64_t latent_channels = 16;  // of poses
  /// Channels of the motion encoder's pictures: of motion_size() pixels a side first, then of half
  /// as many, down to 4.
  std::vector<int64_t> motion_channels{32, 64, 128, 256, 512, 512, 512, 512};
  int64_t motion_style_dim = 512;
  int64_t motion_dim = 20;           // directions of motion
  int64_t motion_encoder_dim = 512;  // of a motion vector
  int64_t face_hidden_dim = 1024;
  int64_t face_heads = 4;                  // tokens of a frame, and one more
  int64_t inject_face_latents_blocks = 5;  // after every fifth block is an adapter

  /// Pixels of a side of the pictures of faces.
  int64_t motion_size() const { return int64_t{4} << (motion_channels.size() - 1); }
  bool operator==(const AnimateConfig&) const = default;
};

/// The sizes of a Wan transformer, under the names of diffusers' `config.json`.
struct TransformerConfig {
  std::array<int64_t, 3> patch_size{1, 2, 2};
  int64_t num_attention_heads = 12;
  int64_t attention_head_dim = 128;
  int64_t in_channels = 16;
  int64_t out_channels = 16;
  int64_t text_dim = 4096;
  int64_t freq_dim = 256;
  int64_t ffn_dim = 8960;
  int64_t num_layers = 30;
  bool cross_attn_norm = true;
  double eps = 1e-6;
  int64_t image_dim = 0;          // 0 = none (null in the file)
  int64_t added_kv_proj_dim = 0;  // 0 = none
  int64_t pos_embed_seq_len = 0;  // 0 = none
  int64_t rope_max_seq_len = 1024;
  /// VACE: the blocks after which a hint of the control branch is added, ascending from 0; empty:
  /// no control branch.
  std::vector<int64_t> vace_layers = {};
  int64_t vace_in_channels = 0;  // of control latents
  // Wan Fun, of VideoX-Fun; 0: none.
  int64_t ref_conv_channels = 0;         // of the latents of a reference image
  int64_t control_adapter_channels = 0;  // of a camera's path, 24: 6 for each of four pictures
  int64_t control_adapter_shrink = 8;    // pixels of a side that become channels

  std::optional<AnimateConfig> animate = {};  // Wan-Animate

  /// Channels after those of the latents, for conditioning on images (I2V); 0: none.
  int64_t condition_channels() const { return in_channels - out_channels; }
  int64_t control_layers() const { return static_cast<int64_t>(vace_layers.size()); }
  int64_t all_layers() const { return num_layers + control_layers(); }
  int64_t dim() const { return num_attention_heads * attention_head_dim; }
  bool operator==(const TransformerConfig&) const = default;
};

/// Throws an Error with the key if a size is out of range or the sizes do not fit together.
void validate(const TransformerConfig& config);

}  // namespace kinema::wan
