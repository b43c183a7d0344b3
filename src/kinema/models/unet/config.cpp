#include "kinema/models/unet/config.h"

#include <iterator>
#include <string>

#include "kinema/core/error.h"
#include "kinema/models/config_check.h"
#include "kinema/models/unet/controlnet.h"

namespace kinema::unet {
namespace {

constexpr ConfigCheck kCheck{"unet"};

template <typename T>
void check_levels(const UNetConfig& c, std::string_view key, const std::vector<T>& values) {
  check(static_cast<int64_t>(values.size()) == c.levels(),
        "[unet] `{}` has {} values but `block_out_channels` has {}", key, values.size(),
        c.levels());
}

}  // namespace

void validate(const UNetConfig& c) {
  // An order of magnitude above SDXL (2.6B), and far inside int64.
  kCheck.range("sample_size", c.sample_size, 1, 4096);
  kCheck.range("in_channels", c.in_channels, 1, 1024);
  kCheck.range("out_channels", c.out_channels, 1, 1024);
  kCheck.range("number of block_out_channels", c.levels(), 1, 8);
  kCheck.range("layers_per_block", c.layers_per_block, 1, 100);
  kCheck.range("cross_attention_dim", c.cross_attention_dim, 1, 1 << 20);
  if (c.has_addition()) {
    kCheck.range("addition_time_embed_dim", c.addition_time_embed_dim, 2, 1 << 16);
    kCheck.range("projection_class_embeddings_input_dim", c.projection_class_embeddings_input_dim,
                 1, 1 << 20);
  }
  kCheck.range("norm_num_groups", c.norm_num_groups, 1, 1 << 12);
  kCheck.epsilon("norm_eps", c.norm_eps);
  check_levels(c, "down_block_types", c.cross_attention);
  check_levels(c, "transformer_layers_per_block", c.transformer_layers_per_block);
  check_levels(c, "attention_head_dim", c.num_attention_heads);
  for (size_t level = 0; level < c.block_out_channels.size(); ++level) {
    const int64_t channels = c.block_out_channels[level];
    kCheck.range("block_out_channels", channels, 1, 1 << 16);
    kCheck.range("transformer_layers_per_block", c.transformer_layers_per_block[level], 1, 1000);
    kCheck.range("attention_head_dim", c.num_attention_heads[level], 1, 1024);
    check(channels % c.norm_num_groups == 0,
          "[unet] `block_out_channels` has {} but must have multiples of `norm_num_groups`, {}",
          channels, c.norm_num_groups);
    check(channels % c.num_attention_heads[level] == 0,
          "[unet] level {} has {} channels, which its {} heads (`attention_head_dim`) do not "
          "divide",
          level, channels, c.num_attention_heads[level]);
  }
  check(c.block_out_channels[0] % 2 == 0 && c.addition_time_embed_dim % 2 == 0,
        "[unet] `block_out_channels` begins with {} and `addition_time_embed_dim` is {} but both "
        "must be even: cosines and sines",
        c.block_out_channels[0], c.addition_time_embed_dim);
  check(!c.has_addition() || c.pooled_dim() > 0,
        "[unet] `projection_class_embeddings_input_dim` is {} but must be more than the sizes' "
        "6 x {}, for the pooled text\n  of a single file with other sizes than the released ones: "
        "put diffusers' config.json next to it",
        c.projection_class_embeddings_input_dim, c.addition_time_embed_dim);
}

void validate(const ControlNetConfig& c) {
  validate(c.encoder);
  kCheck.range("conditioning_channels", c.conditioning_channels, 1, 64);
  kCheck.range("number of conditioning_embedding_out_channels",
               std::ssize(c.conditioning_embedding_out_channels), 1, 8);
  for (const int64_t channels : c.conditioning_embedding_out_channels) {
    kCheck.range("conditioning_embedding_out_channels", channels, 1, 1 << 16);
  }
  if (!c.is_union()) {
    return;
  }
  kCheck.range("num_control_type", c.num_control_type, 1, 64);
  kCheck.range("num_trans_channel", c.num_trans_channel, 1, 1 << 16);
  kCheck.range("num_trans_layer", c.num_trans_layer, 0, 100);
  check(c.num_trans_channel == c.encoder.block_out_channels[0],
        "[unet] num_trans_channel is {} but must be the first of block_out_channels, {}",
        c.num_trans_channel, c.encoder.block_out_channels[0]);
  check(c.encoder.has_addition(),
        "[unet] addition_embed_type is null, but union ControlNets are of Stable Diffusion XL");
}

}  // namespace kinema::unet
