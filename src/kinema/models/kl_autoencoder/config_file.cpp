#include "kinema/models/kl_autoencoder/config_file.h"

#include <string>

#include "kinema/core/error.h"
#include "kinema/models/config_json.h"

namespace kinema::kl_autoencoder {
namespace {

using io::Json;

bool given(const ConfigJson& file, std::string_view key) {
  const Json* value = file.find(key);
  return value != nullptr && !value->is_null();
}

void check_types(const ConfigJson& file, std::string_view key, std::string_view type,
                 size_t levels) {
  const Json& types = file.at(key);
  check(types.items().size() == levels,
        "[kl_autoencoder] {} has {} levels but "
        "`block_out_channels` has {}",
        types.where(), types.items().size(), levels);
  for (const Json& name : types.items()) {
    check(name.as_string() == type, "[kl_autoencoder] {} is `{}` but this build knows `{}` only",
          name.where(), name.as_string(), type);
  }
}

std::vector<double> numbers(const ConfigJson& file, std::string_view key) {
  std::vector<double> out;
  if (given(file, key)) {
    for (const Json& item : file.at(key).items()) {
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
  const ConfigJson file("kl_autoencoder", "a KL autoencoder", json);
  file.check_class(kClassName);
  file.check_fixed({{"act_fn", "silu"},
                    {"in_channels", 3},
                    {"out_channels", 3},
                    {"mid_block_add_attention", true}});
  AutoencoderConfig c;
  c.block_out_channels = file.at("block_out_channels").as_ints();
  check_types(file, "down_block_types", "DownEncoderBlock2D", c.block_out_channels.size());
  check_types(file, "up_block_types", "UpDecoderBlock2D", c.block_out_channels.size());
  c.layers_per_block = file.at("layers_per_block").as_int();
  c.latent_channels = file.at("latent_channels").as_int();
  c.norm_num_groups = file.at("norm_num_groups").as_int();
  // Older configurations have neither key; their models have both convolutions.
  c.use_quant_conv = !file.contains("use_quant_conv") || file.at("use_quant_conv").as_bool();
  c.use_post_quant_conv =
      !file.contains("use_post_quant_conv") || file.at("use_post_quant_conv").as_bool();
  constexpr double kOfTheFirst = 0.18215;  // diffusers' default
  c.scaling_factor =
      given(file, "scaling_factor") ? file.at("scaling_factor").as_number() : kOfTheFirst;
  c.shift_factor = given(file, "shift_factor") ? file.at("shift_factor").as_number() : 0.0;
  c.latents_mean = numbers(file, "latents_mean");
  c.latents_std = numbers(file, "latents_std");
  file.check_known({"force_upcast", "sample_size"});
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
