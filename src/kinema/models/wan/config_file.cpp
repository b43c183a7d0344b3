#include "kinema/models/wan/config_file.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/models/config_json.h"

namespace kinema::wan {
namespace {

using io::Json;

// VideoX-Fun's names; diffusers has no such models.
constexpr const char* kRefConv = "in_dim_ref_conv";
constexpr const char* kAdapter = "in_dim_control_adapter";
constexpr const char* kShrink = "downscale_factor_control_adapter";

constexpr std::string_view kQkNorm = "rms_norm_across_heads";

std::array<int64_t, 3> patch_size(const Json& value) {
  const std::vector<int64_t> sizes = value.as_ints();
  check(sizes.size() == 3, "[wan] {} has {} sizes but must have 3: frames, rows, columns",
        value.where(), sizes.size());
  return {sizes[0], sizes[1], sizes[2]};
}

bool class_is(const Json& json, std::string_view name) {
  const Json* own = json.is_object() ? json.find("_class_name") : nullptr;
  return own != nullptr && own->is_string() && own->as_string() == name;
}

/// The channels by side in pixels, as `{"4": 512, "8": 512}`, from `side` down to 4.
std::vector<int64_t> motion_channels(const ConfigJson& file, int64_t side) {
  constexpr int64_t kMostSide = 4096;
  check(side >= 4 && side <= kMostSide && (side & (side - 1)) == 0,
        "[wan] {} is {}, expected a power of two from 4 to {}",
        file.at("motion_encoder_size").where(), side, kMostSide);
  std::vector<int64_t> out;
  const Json* sizes = file.find("motion_encoder_channel_sizes");
  for (; side >= 4; side /= 2) {
    if (sizes != nullptr && !sizes->is_null()) {
      out.push_back(sizes->at(std::to_string(side)).as_int());
    } else {
      constexpr int64_t kMostChannels = 512;
      constexpr int64_t kPixels = 1 << 14;  // the release's: 16 of 1024 pixels, 32 of 512, ...
      out.push_back(std::min(kMostChannels, std::max(int64_t{1}, kPixels / side)));
    }
  }
  return out;
}

AnimateConfig animate_config(const ConfigJson& file) {
  AnimateConfig a;
  a.latent_channels = file.optional_size("latent_channels", a.latent_channels);
  a.motion_channels =
      motion_channels(file, file.optional_size("motion_encoder_size", a.motion_size()));
  a.motion_style_dim = file.optional_size("motion_style_dim", a.motion_style_dim);
  a.motion_dim = file.optional_size("motion_dim", a.motion_dim);
  a.motion_encoder_dim = file.optional_size("motion_encoder_dim", a.motion_encoder_dim);
  a.face_hidden_dim = file.optional_size("face_encoder_hidden_dim", a.face_hidden_dim);
  a.face_heads = file.optional_size("face_encoder_num_heads", a.face_heads);
  a.inject_face_latents_blocks =
      file.optional_size("inject_face_latents_blocks", a.inject_face_latents_blocks);
  return a;
}

void set_animate(const AnimateConfig& a, Json& out) {
  Json channels = Json::object();
  int64_t side = a.motion_size();
  for (const int64_t each : a.motion_channels) {
    channels.set(std::to_string(side), each);
    side /= 2;
  }
  out.set("face_encoder_hidden_dim", a.face_hidden_dim);
  out.set("face_encoder_num_heads", a.face_heads);
  out.set("inject_face_latents_blocks", a.inject_face_latents_blocks);
  out.set("latent_channels", a.latent_channels);
  out.set("motion_dim", a.motion_dim);
  out.set("motion_encoder_channel_sizes", channels);
  out.set("motion_encoder_dim", a.motion_encoder_dim);
  out.set("motion_encoder_size", a.motion_size());
  out.set("motion_style_dim", a.motion_style_dim);
}

}  // namespace

TransformerConfig parse_config(const Json& json) {
  const ConfigJson file("wan", "a Wan transformer", json);
  const bool vace = class_is(json, kVaceClassName);
  const bool animate = class_is(json, kAnimateClassName);
  if (!vace && !animate) {
    file.check_class(kClassName);
  }
  file.check_fixed({{"qk_norm", kQkNorm}});
  TransformerConfig c;
  c.patch_size = patch_size(file.at("patch_size"));
  c.num_attention_heads = file.at("num_attention_heads").as_int();
  c.attention_head_dim = file.at("attention_head_dim").as_int();
  c.in_channels = file.at("in_channels").as_int();
  c.out_channels = file.optional_size("out_channels", c.in_channels);
  c.text_dim = file.at("text_dim").as_int();
  c.freq_dim = file.at("freq_dim").as_int();
  c.ffn_dim = file.at("ffn_dim").as_int();
  c.num_layers = file.at("num_layers").as_int();
  c.cross_attn_norm = file.at("cross_attn_norm").as_bool();
  c.eps = file.at("eps").as_number();
  c.image_dim = file.optional_size("image_dim", 0);
  c.added_kv_proj_dim = file.optional_size("added_kv_proj_dim", 0);
  c.pos_embed_seq_len = file.optional_size("pos_embed_seq_len", 0);
  c.rope_max_seq_len = file.optional_size("rope_max_seq_len", c.rope_max_seq_len);
  if (vace) {
    c.vace_layers = file.at("vace_layers").as_ints();
    c.vace_in_channels = file.at("vace_in_channels").as_int();
  }
  c.ref_conv_channels = file.optional_size(kRefConv, 0);
  c.control_adapter_channels = file.optional_size(kAdapter, 0);
  c.control_adapter_shrink = file.optional_size(kShrink, c.control_adapter_shrink);
  if (animate) {
    c.animate = animate_config(file);
  }
  // How many pictures of faces are encoded at once.
  file.check_known({"motion_encoder_batch_size"});
  file.validated([&] { validate(c); });
  return c;
}

Json config_json(const TransformerConfig& c) {
  const auto or_null = [](int64_t size) { return size > 0 ? Json(size) : Json(); };
  Json out = Json::object(
      {{"_class_name", c.animate               ? kAnimateClassName
                       : c.vace_layers.empty() ? kClassName
                                               : kVaceClassName},
       {"added_kv_proj_dim", or_null(c.added_kv_proj_dim)},
       {"attention_head_dim", c.attention_head_dim},
       {"cross_attn_norm", c.cross_attn_norm},
       {"eps", c.eps},
       {"ffn_dim", c.ffn_dim},
       {"freq_dim", c.freq_dim},
       {"image_dim", or_null(c.image_dim)},
       {"in_channels", c.in_channels},
       {"num_attention_heads", c.num_attention_heads},
       {"num_layers", c.num_layers},
       {"out_channels", c.out_channels},
       {"patch_size", Json::array({c.patch_size[0], c.patch_size[1], c.patch_size[2]})},
       {"pos_embed_seq_len", or_null(c.pos_embed_seq_len)},
       {"qk_norm", kQkNorm},
       {"rope_max_seq_len", c.rope_max_seq_len},
       {"text_dim", c.text_dim}});
  if (!c.vace_layers.empty()) {
    Json layers = Json::array();
    for (const int64_t layer : c.vace_layers) {
      layers.append(layer);
    }
    out.set("vace_in_channels", c.vace_in_channels);
    out.set("vace_layers", layers);
  }
  if (c.animate) {
    set_animate(*c.animate, out);
  }
  if (c.ref_conv_channels > 0) {
    out.set(kRefConv, c.ref_conv_channels);
  }
  if (c.control_adapter_channels > 0) {
    out.set(kAdapter, c.control_adapter_channels);
    out.set(kShrink, c.control_adapter_shrink);
  }
  return out;
}

Json original_config_json(const TransformerConfig& c) {
  check(c.attention_head_dim == kReleasedHead,
        "[wan] the model has heads of {}: files with original names are always read with {}\n"
        "  --to diffusers writes a config.json with the right number",
        c.attention_head_dim, kReleasedHead);
  const bool tokens = c.out_channels == 48;  // the latents of Wan 2.2 TI2V
  const bool branch = !c.vace_layers.empty();
  const char* type = c.animate                    ? "animate"
                     : branch                     ? "vace"
                     : c.pos_embed_seq_len > 0    ? "flf2v"
                     : c.condition_channels() > 0 ? "i2v"
                     : tokens                     ? "ti2v"
                                                  : "t2v";
  Json out = Json::object({{"_class_name", c.animate ? kOriginalAnimateClassName
                                           : branch  ? kOriginalVaceClassName
                                                     : kOriginalClassName},
                           {"dim", c.dim()},
                           {"eps", c.eps},
                           {"ffn_dim", c.ffn_dim},
                           {"freq_dim", c.freq_dim},
                           {"in_dim", c.in_channels},
                           {"model_type", type},
                           {"num_heads", c.num_attention_heads},
                           {"num_layers", c.num_layers},
                           {"out_dim", c.out_channels},
                           {"text_len", int64_t{512}}});
  if (branch) {
    Json layers = Json::array();
    for (const int64_t layer : c.vace_layers) {
      layers.append(layer);
    }
    out.set("vace_in_dim", c.vace_in_channels);
    out.set("vace_layers", layers);
  }
  return out;
}

}  // namespace kinema::wan
