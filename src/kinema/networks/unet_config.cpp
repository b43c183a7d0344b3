#include "kinema/networks/unet_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "kinema/core/error.h"
#include "kinema/networks/checkpoint_sizes.h"

namespace kinema::networks {

unet::UNetConfig encoder_from_shapes(const model_files::Checkpoint& checkpoint) {
  constexpr int64_t kHead = 64;
  const CheckpointSizes sizes(checkpoint);
  unet::UNetConfig c;
  const std::string first_in = "mid_block.attentions.0.proj_in.weight";
  c.use_linear_projection = checkpoint.at(first_in).shape.rank() == 2;
  c.in_channels = sizes.dims("conv_in.weight", 4)[1];
  c.block_out_channels.clear();
  c.cross_attention.clear();
  c.transformer_layers_per_block.clear();
  c.num_attention_heads.clear();
  const int64_t levels = sizes.count("down_blocks.{}.resnets.0.conv1.weight");
  for (int64_t level = 0; level < levels; ++level) {
    const std::string block = fmt::format("down_blocks.{}.", level);
    const int64_t channels = sizes.dims(block + "resnets.0.conv1.weight", 4)[0];
    const int64_t heads = c.use_linear_projection ? channels / kHead : 8;
    check(heads > 0 && channels % heads == 0 && (heads == 8 || channels % kHead == 0),
          "[weights] {}: level {} has {} channels, which is not a multiple of the head width, {}\n"
          "  put a diffusers config.json with the heads next to the file",
          checkpoint.path(), level, channels, kHead);
    const int64_t layers = sizes.count(block + "attentions.0.transformer_blocks.{}.norm1.weight");
    c.block_out_channels.push_back(channels);
    c.cross_attention.push_back(layers > 0);
    c.transformer_layers_per_block.push_back(std::max<int64_t>(layers, 1));
    c.num_attention_heads.push_back(heads);
  }
  check(levels > 0, "[weights] {} has no tensor `{}`, so it holds no UNet", checkpoint.path(),
        checkpoint.name_in_file("down_blocks.0.resnets.0.conv1.weight"));
  c.layers_per_block = sizes.count("down_blocks.0.resnets.{}.conv1.weight");
  if (const int64_t layers =
          sizes.count("mid_block.attentions.0.transformer_blocks.{}.norm1.weight");
      layers > 0) {
    c.transformer_layers_per_block.back() = layers;
  }
  c.cross_attention_dim =
      sizes.dims("mid_block.attentions.0.transformer_blocks.0.attn2.to_k.weight", 2)[1];
  if (checkpoint.find("add_embedding.linear_1.weight") != nullptr) {
    c.projection_class_embeddings_input_dim = sizes.dims("add_embedding.linear_1.weight", 2)[1];
  } else {
    c.addition_time_embed_dim = c.projection_class_embeddings_input_dim = 0;
    constexpr int64_t kSides = 64;  // of most models of Stable Diffusion 1 and 2
    c.sample_size = kSides;
  }
  return c;
}

std::vector<Value> unet_key_values(const std::vector<std::array<int64_t, 3>>& sizes,
                                   const nn::ModelOptions& options, int64_t contexts,
                                   int64_t text_tokens) {
  std::vector<Value> out;
  for (const auto& [layers, heads, width] : sizes) {
    const Shape shape{options.activations_dtype, {layers, contexts, text_tokens, heads, width}};
    out.push_back(
        {.name = fmt::format("{}{}", out.size() % 2 == 0 ? "keys" : "values", out.size() / 2),
         .shape = shape,
         .sharding = options.place.sharding(
             {"", "activation_batch", "", "activation_cross_attn_heads", ""}, shape.dims)});
  }
  return out;
}

}  // namespace kinema::networks
