#include "kinema/models/wan/config.h"

#include <array>

#include "kinema/core/error.h"
#include "kinema/models/config_check.h"

namespace kinema::wan {
namespace {

constexpr ConfigCheck kCheck{"wan"};

void validate_animate(const TransformerConfig& c) {
  const AnimateConfig& a = *c.animate;
  kCheck.range("latent_channels", a.latent_channels, 1, 65536);
  check(!a.motion_channels.empty() && a.motion_channels.size() <= 11,
        "[wan] the motion encoder has {} sizes of pictures, expected 1 to 11",
        a.motion_channels.size());
  for (const int64_t channels : a.motion_channels) {
    kCheck.range("motion_encoder_channel_sizes", channels, 1, 65536);
  }
  kCheck.range("motion_style_dim", a.motion_style_dim, 1, 1 << 17);
  kCheck.range("motion_dim", a.motion_dim, 1, 256);
  kCheck.range("motion_encoder_dim", a.motion_encoder_dim, a.motion_dim, 1 << 17);
  kCheck.range("face_encoder_hidden_dim", a.face_hidden_dim, 1, 1 << 17);
  kCheck.range("face_encoder_num_heads", a.face_heads, 1, 1024);
  kCheck.range("inject_face_latents_blocks", a.inject_face_latents_blocks, 1, c.num_layers);
  check(
      c.num_layers % a.inject_face_latents_blocks == 0,
      "[wan] `num_layers` is {} but must be a multiple of `inject_face_latents_blocks`, {}: there "
      "is an adapter for every {} blocks",
      c.num_layers, a.inject_face_latents_blocks, a.inject_face_latents_blocks);
  check(
      c.image_dim > 0 && c.vace_layers.empty() && c.patch_size[0] == 1,
      "[wan] an Animate transformer needs `image_dim`, no `vace_layers`, and patches of one frame");
}

}  // namespace

void validate(const TransformerConfig& c) {
  // The bounds are an order of magnitude above the largest published model (14B) and keep products
  // of sizes far inside int64.
  for (const int64_t size : c.patch_size) {
    kCheck.range("patch_size", size, 1, 64);
  }
  kCheck.range("num_attention_heads", c.num_attention_heads, 1, 1024);
  kCheck.range("attention_head_dim", c.attention_head_dim, 1, 4096);
  kCheck.range("in_channels", c.in_channels, 1, 65536);
  kCheck.range("out_channels", c.out_channels, 1, 65536);
  kCheck.range("text_dim", c.text_dim, 1, 1 << 20);
  kCheck.range("freq_dim", c.freq_dim, 2, 1 << 20);
  kCheck.range("ffn_dim", c.ffn_dim, 1, 1 << 22);
  kCheck.range("num_layers", c.num_layers, 1, 1000);
  kCheck.range("image_dim", c.image_dim, 0, 1 << 20);
  kCheck.range("added_kv_proj_dim", c.added_kv_proj_dim, 0, 1 << 22);
  kCheck.range("pos_embed_seq_len", c.pos_embed_seq_len, 0, 1 << 20);
  kCheck.range("rope_max_seq_len", c.rope_max_seq_len, 1, 1 << 24);
  kCheck.range("vace_in_channels", c.vace_in_channels, 0, 65536);
  kCheck.range("in_dim_ref_conv", c.ref_conv_channels, 0, 65536);
  kCheck.range("in_dim_control_adapter", c.control_adapter_channels, 0, 65536);
  kCheck.range("downscale_factor_control_adapter", c.control_adapter_shrink, 1, 64);
  kCheck.epsilon("eps", c.eps);
  check(c.attention_head_dim % 2 == 0,
        "[wan] `attention_head_dim` is {} but must be even: the rotary embedding turns pairs",
        c.attention_head_dim);
  check(c.freq_dim % 2 == 0, "[wan] `freq_dim` is {} but must be even: cosines and sines",
        c.freq_dim);
  kCheck.range("num_attention_heads * attention_head_dim", c.dim(), 2, 1 << 17);
  check((c.image_dim > 0) == (c.added_kv_proj_dim > 0),
        "[wan] `image_dim` is {} and `added_kv_proj_dim` is {}: image conditioning needs both",
        c.image_dim, c.added_kv_proj_dim);
  check(c.added_kv_proj_dim == 0 || c.added_kv_proj_dim == c.dim(),
        "[wan] `added_kv_proj_dim` is {} but must be the model's width, {}", c.added_kv_proj_dim,
        c.dim());
  check(
      c.vace_layers.empty() == (c.vace_in_channels == 0),
      "[wan] `vace_layers` has {} blocks and `vace_in_channels` is {}: a control branch needs both",
      c.vace_layers.size(), c.vace_in_channels);
  for (size_t i = 0; i < c.vace_layers.size(); ++i) {
    const int64_t layer = c.vace_layers[i];
    check(i == 0 ? layer == 0 : layer > c.vace_layers[i - 1] && layer < c.num_layers,
          "[wan] `vace_layers` holds {} in place {} but must ascend from 0 to at most {}", layer, i,
          c.num_layers - 1);
  }
  check(c.vace_layers.empty() || c.image_dim == 0,
        "[wan] `image_dim` is {} but a network with `vace_layers` has none", c.image_dim);
  const bool is_fun = c.ref_conv_channels > 0 || c.control_adapter_channels > 0;
  check(!is_fun || c.patch_size == std::array<int64_t, 3>{1, 2, 2},
        "[wan] `patch_size` is not [1, 2, 2], which a reference image or a camera's path needs");
  check(c.pos_embed_seq_len == 0 || c.image_dim > 0,
        "[wan] `pos_embed_seq_len` is {} but there is no `image_dim`", c.pos_embed_seq_len);
  if (c.animate) {
    validate_animate(c);
  }
}

}  // namespace kinema::wan
