#include "kinema/models/unet/config_file.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/models/config_json.h"
#include "kinema/models/unet/controlnet.h"

namespace kinema::unet {
namespace {

using io::Json;

/// A value for all levels, or one for each.
std::vector<int64_t> per_level(const Json& value, size_t levels) {
  return value.is_array() ? value.as_ints() : std::vector<int64_t>(levels, value.as_int());
}

std::vector<bool> cross_attention(const ConfigJson& file, std::string_view key,
                                  std::string_view with, std::string_view without) {
  const Json& types = file.at(key);
  std::vector<bool> out;
  for (const Json& type : types.items()) {
    const std::string& name = type.as_string();
    check(name == with || name == without, "[unet] {} is `{}` but this build knows {} and {}",
          type.where(), name, with, without);
    out.push_back(name == with);
  }
  return out;
}

/// True for Stable Diffusion XL, which adds pooled text and a picture's sizes to the timestep;
/// false for Stable Diffusion 1 and 2. Throws an Error for UNets of other families under the same
/// class.
bool has_addition(const ConfigJson& file) {
  const Json* kind = file.find("addition_embed_type");
  if (kind == nullptr || kind->is_null()) {
    return false;
  }
  check(kind->is_string() && kind->as_string() == "text_time",
        "[unet] {} is {}: expected `text_time` (Stable Diffusion XL) or none (1 and 2)",
        kind->where(), kind->dump(-1));
  return true;
}

void check_fixed(const ConfigJson& file) {
  file.check_fixed({{"act_fn", "silu"},
                    {"attention_type", "default"},
                    {"center_input_sample", false},
                    {"class_embed_type", Json()},
                    {"conv_in_kernel", 3},
                    {"conv_out_kernel", 3},
                    {"cross_attention_norm", Json()},
                    {"downsample_padding", 1},
                    {"dual_cross_attention", false},
                    {"encoder_hid_dim", Json()},
                    {"encoder_hid_dim_type", Json()},
                    {"flip_sin_to_cos", true},
                    {"freq_shift", 0},
                    {"mid_block_type", "UNetMidBlock2DCrossAttn"},
                    {"num_class_embeds", Json()},
                    {"only_cross_attention", false},
                    {"resnet_skip_time_act", false},
                    {"resnet_time_scale_shift", "default"},
                    {"reverse_transformer_layers_per_block", Json()},
                    {"time_cond_proj_dim", Json()},
                    {"time_embedding_act_fn", Json()},
                    {"time_embedding_dim", Json()},
                    {"time_embedding_type", "positional"},
                    {"timestep_post_act", Json()}});
}

Json list(const std::vector<int64_t>& values) {
  Json out = Json::array();
  for (const int64_t value : values) {
    out.append(value);
  }
  return out;
}

/// The sizes of the down path and the middle, which ControlNets have too.
UNetConfig parse_encoder(const ConfigJson& file) {
  UNetConfig c;
  c.in_channels = file.at("in_channels").as_int();
  c.block_out_channels = file.at("block_out_channels").as_ints();
  const size_t levels = c.block_out_channels.size();
  c.cross_attention =
      cross_attention(file, "down_block_types", "CrossAttnDownBlock2D", "DownBlock2D");
  c.transformer_layers_per_block = file.contains("transformer_layers_per_block")
                                       ? per_level(file.at("transformer_layers_per_block"), levels)
                                       : std::vector<int64_t>(levels, 1);
  // The older key holds numbers of heads; the newer one takes precedence.
  const Json* heads = file.find("num_attention_heads");
  const Json& older = file.at("attention_head_dim");
  c.num_attention_heads = per_level(heads != nullptr && !heads->is_null() ? *heads : older, levels);
  c.layers_per_block = file.at("layers_per_block").as_int();
  c.cross_attention_dim = file.at("cross_attention_dim").as_int();
  const bool added = has_addition(file);
  c.addition_time_embed_dim = added ? file.at("addition_time_embed_dim").as_int() : 0;
  c.projection_class_embeddings_input_dim =
      added ? file.at("projection_class_embeddings_input_dim").as_int() : 0;
  const Json* linear = file.find("use_linear_projection");
  c.use_linear_projection = linear != nullptr && !linear->is_null() && linear->as_bool();
  c.norm_num_groups = file.at("norm_num_groups").as_int();
  c.norm_eps = file.at("norm_eps").as_number();
  if (const Json* factor = file.find("mid_block_scale_factor"); factor != nullptr) {
    check(factor->as_number() == 1.0, "[unet] mid_block_scale_factor is {}; only 1 is supported",
          factor->brief());
  }
  return c;
}

/// The same keys for saving.
Json encoder_json(const UNetConfig& c) {
  Json down = Json::array();
  for (const bool cross : c.cross_attention) {
    down.append(cross ? "CrossAttnDownBlock2D" : "DownBlock2D");
  }
  return Json::object(
      {{"act_fn", "silu"},
       {"addition_embed_type", c.has_addition() ? Json("text_time") : Json()},
       {"addition_time_embed_dim", c.has_addition() ? Json(c.addition_time_embed_dim) : Json()},
       {"attention_head_dim", list(c.num_attention_heads)},
       {"block_out_channels", list(c.block_out_channels)},
       {"cross_attention_dim", c.cross_attention_dim},
       {"down_block_types", down},
       {"flip_sin_to_cos", true},
       {"freq_shift", 0},
       {"in_channels", c.in_channels},
       {"layers_per_block", c.layers_per_block},
       {"mid_block_type", "UNetMidBlock2DCrossAttn"},
       {"norm_eps", c.norm_eps},
       {"norm_num_groups", c.norm_num_groups},
       {"projection_class_embeddings_input_dim",
        c.has_addition() ? Json(c.projection_class_embeddings_input_dim) : Json()},
       {"transformer_layers_per_block", list(c.transformer_layers_per_block)},
       {"use_linear_projection", c.use_linear_projection}});
}

}  // namespace

UNetConfig parse_config(const Json& json) {
  const ConfigJson file("unet", "a UNet of Stable Diffusion", json);
  file.check_class(kClassName);
  check_fixed(file);
  UNetConfig c = parse_encoder(file);
  c.out_channels = file.at("out_channels").as_int();
  std::vector<bool> up = cross_attention(file, "up_block_types", "CrossAttnUpBlock2D", "UpBlock2D");
  std::reverse(up.begin(), up.end());
  check(up == c.cross_attention,
        "[unet] {} is not the reverse of `down_block_types`, which this build needs",
        file.at("up_block_types").where());
  file.check_known({"addition_embed_type_num_heads", "addition_time_embed_dim",
                    "class_embeddings_concat", "dropout", "mid_block_only_cross_attention",
                    "projection_class_embeddings_input_dim", "resnet_out_scale_factor",
                    "sample_size", "upcast_attention"});
  if (const Json* side = file.find("sample_size");
      side != nullptr && !side->is_null() && !side->is_array()) {
    c.sample_size = side->as_int();
  }
  file.validated([&] { validate(c); });
  return c;
}

Json config_json(const UNetConfig& c) {
  Json up = Json::array();
  for (size_t i = c.cross_attention.size(); i > 0; --i) {
    up.append(c.cross_attention[i - 1] ? "CrossAttnUpBlock2D" : "UpBlock2D");
  }
  Json out = encoder_json(c);
  out.set("_class_name", kClassName);
  out.set("out_channels", c.out_channels);
  out.set("sample_size", c.sample_size);
  out.set("up_block_types", up);
  return out;
}

ControlNetConfig parse_controlnet_config(const Json& json) {
  const ConfigJson file("unet", "a ControlNet of Stable Diffusion", json);
  const bool is_union = json.at("_class_name").as_string() == kControlNetUnionClass;
  if (!is_union) {
    file.check_class(kControlNetClass);
  }
  check_fixed(file);
  ControlNetConfig c{.encoder = parse_encoder(file)};
  c.encoder.out_channels = c.encoder.in_channels;
  const auto size = [&](const char* key, int64_t otherwise) {
    return file.contains(key) ? file.at(key).as_int() : otherwise;
  };
  c.conditioning_channels = size("conditioning_channels", c.conditioning_channels);
  if (file.contains("conditioning_embedding_out_channels")) {
    c.conditioning_embedding_out_channels =
        file.at("conditioning_embedding_out_channels").as_ints();
  }
  if (const Json* order = file.find("controlnet_conditioning_channel_order"); order != nullptr) {
    check(order->as_string() == "rgb" || order->as_string() == "bgr",
          "[unet] {} is `{}`, expected rgb or bgr", order->where(), order->as_string());
    c.is_bgr = order->as_string() == "bgr";
  }
  const Json* pools = file.find("global_pool_conditions");
  c.global_pool_conditions = pools != nullptr && !pools->is_null() && pools->as_bool();
  if (is_union) {
    c.num_control_type = size("num_control_type", 6);
    c.num_trans_channel = size("num_trans_channel", 320);
    c.num_trans_head = size("num_trans_head", 8);
    c.num_trans_layer = size("num_trans_layer", 1);
    const int64_t projected = size("num_proj_channel", c.encoder.block_out_channels.at(0));
    check(projected == c.encoder.block_out_channels.at(0),
          "[unet] num_proj_channel is {} but must be the first of block_out_channels, {}",
          projected, c.encoder.block_out_channels.at(0));
  }
  file.check_known({"addition_embed_type_num_heads", "addition_time_embed_dim",
                    "projection_class_embeddings_input_dim", "upcast_attention"});
  file.validated([&] { validate(c); });
  return c;
}

Json config_json(const ControlNetConfig& c) {
  Json out = encoder_json(c.encoder);
  out.set("_class_name", c.is_union() ? kControlNetUnionClass : kControlNetClass);
  out.set("conditioning_channels", c.conditioning_channels);
  out.set("conditioning_embedding_out_channels", list(c.conditioning_embedding_out_channels));
  out.set("controlnet_conditioning_channel_order", c.is_bgr ? "bgr" : "rgb");
  out.set("global_pool_conditions", c.global_pool_conditions);
  if (c.is_union()) {
    out.set("num_control_type", c.num_control_type);
    out.set("num_proj_channel", c.encoder.block_out_channels.front());
    out.set("num_trans_channel", c.num_trans_channel);
    out.set("num_trans_head", c.num_trans_head);
    out.set("num_trans_layer", c.num_trans_layer);
  }
  return out;
}

}  // namespace kinema::unet
