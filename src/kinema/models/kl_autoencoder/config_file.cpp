#include "kinema/models/kl_autoencoder/config_file.h"

#include <array>
#include <string>

#include "kinema/core/error.h"
#include "kinema/models/config_json.h"

namespace kinema::kl_autoencoder {
namespace {

using io::Json;

constexpr std::array<std::string_view, 18> kKeys{"act_fn",
                                                 "block_out_channels",
                                                 "down_block_types",
                                                 "force_upcast",
                                                 "in_channels",
                                                 "latent_channels",
                                                 "latents_mean",
                                                 "latents_std",
                                                 "layers_per_block",
                                                 "mid_block_add_attention",
                                                 "norm_num_groups",
                                                 "out_channels",
                                                 "sample_size",
                                                 "scaling_factor",
                                                 "shift_factor",
                                                 "up_block_types",
                                                 "use_post_quant_conv",
                                                 "use_quant_conv"};

bool given(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr && !value->is_null();
}

void check_types(const Json& json, std::string_view key, std::string_view type, size_t levels) {
  const Json& types = json.at(key);
  check(types.items().size() == levels,
        "[kl_autoencoder] {} has {} levels but "
        "`block_out_channels` has {}",
        types.where(), types.items().size(), levels);
  for (const Json& name : types.items()) {
    check(name.as_string() == type, "[kl_autoencoder] {} is `{}` but this build knows `{}` only",
          name.where(), name.as_string(), type);
  }
}

std::vector<double> numbers(const Json& json, std::string_view key) {
  std::vector<double> out;
  if (given(json, key)) {
    for (const Json& item : json.at(key).items()) {
      out.push_back(item.as_number());
    }
  }
  return out;
}

Json list(const std::vector<double>& values) {
  if (values.empty()) {
    return {};
  }
  Json out = Json::array();
  for (const double value : values) {
    out.append(value);
  }
  return out;
}

}  // namespace

AutoencoderConfig parse_config(const Json& json) {
  const ConfigJson file{.model = "kl_autoencoder", .what = "a KL autoencoder", .json = json};
  file.check_class(kClassName);
  file.check_known(kKeys);
  file.check_fixed({{"act_fn", "silu"},
                    {"in_channels", 3},
                    {"out_channels", 3},
                    {"mid_block_add_attention", true}});
  AutoencoderConfig c;
  c.block_out_channels = json.at("block_out_channels").as_ints();
  check_types(json, "down_block_types", "DownEncoderBlock2D", c.block_out_channels.size());
  check_types(json, "up_block_types", "UpDecoderBlock2D", c.block_out_channels.size());
  c.layers_per_block = json.at("layers_per_block").as_int();
  c.latent_channels = json.at("latent_channels").as_int();
  c.norm_num_groups = json.at("norm_num_groups").as_int();
  // Older configurations have neither key, and are of models with both convolutions.
  c.use_quant_conv = !json.contains("use_quant_conv") || json.at("use_quant_conv").as_bool();
  c.use_post_quant_conv =
      !json.contains("use_post_quant_conv") || json.at("use_post_quant_conv").as_bool();
  c.scaling_factor = json.at("scaling_factor").as_number();
  c.shift_factor = given(json, "shift_factor") ? json.at("shift_factor").as_number() : 0.0;
  c.latents_mean = numbers(json, "latents_mean");
  c.latents_std = numbers(json, "latents_std");
  file.validated([&] { validate(c); });
  return c;
}

Json config_json(const AutoencoderConfig& c) {
  Json channels = Json::array();
  Json down = Json::array();
  Json up = Json::array();
  for (const int64_t size : c.block_out_channels) {
    channels.append(size);
    down.append("DownEncoderBlock2D");
    up.append("UpDecoderBlock2D");
  }
  return Json::object({{"_class_name", kClassName},
                       {"act_fn", "silu"},
                       {"block_out_channels", channels},
                       {"down_block_types", down},
                       {"in_channels", 3},
                       {"latent_channels", c.latent_channels},
                       {"latents_mean", list(c.latents_mean)},
                       {"latents_std", list(c.latents_std)},
                       {"layers_per_block", c.layers_per_block},
                       {"mid_block_add_attention", true},
                       {"norm_num_groups", c.norm_num_groups},
                       {"out_channels", 3},
                       {"scaling_factor", c.scaling_factor},
                       {"shift_factor", c.shift_factor},
                       {"up_block_types", up},
                       {"use_post_quant_conv", c.use_post_quant_conv},
                       {"use_quant_conv", c.use_quant_conv}});
}

}  // namespace kinema::kl_autoencoder
