#include "kinema/models/wan/config_file.h"

#include <array>
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

}  // namespace

TransformerConfig parse_config(const Json& json) {
  const ConfigJson file("wan", "a Wan transformer", json);
  const bool vace = class_is(json, kVaceClassName);
  if (!vace) {
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
  file.check_known();
  file.validated([&] { validate(c); });
  return c;
}

Json config_json(const TransformerConfig& c) {
  const auto or_null = [](int64_t size) { return size > 0 ? Json(size) : Json(); };
  Json out = Json::object(
      {{"_class_name", c.vace_layers.empty() ? kClassName : kVaceClassName},
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
  const char* type = branch                       ? "vace"
                     : c.pos_embed_seq_len > 0    ? "flf2v"
                     : c.condition_channels() > 0 ? "i2v"
                     : tokens                     ? "ti2v"
                                                  : "t2v";
  Json out = Json::object({{"_class_name", branch ? kOriginalVaceClassName : kOriginalClassName},
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
