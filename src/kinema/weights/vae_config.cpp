#include "kinema/weights/vae_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "kinema/core/error.h"

namespace kinema::weights {
namespace {

using io::Json;

constexpr std::string_view kClass = "AutoencoderKLWan";

// `clip_output` is in some published files; the reference does not read it.
constexpr std::array<std::string_view, 17> kKeys{"base_dim",
                                                 "decoder_base_dim",
                                                 "z_dim",
                                                 "dim_mult",
                                                 "num_res_blocks",
                                                 "attn_scales",
                                                 "temperal_downsample",
                                                 "dropout",
                                                 "latents_mean",
                                                 "latents_std",
                                                 "is_residual",
                                                 "in_channels",
                                                 "out_channels",
                                                 "patch_size",
                                                 "scale_factor_temporal",
                                                 "scale_factor_spatial",
                                                 "clip_output"};

void check_words(const Json& json) {
  const Json& name = json.at("_class_name");
  check(name.as_string() == kClass, "[weights] {} is `{}` but must be `{}`", name.where(),
        name.as_string(), kClass);
  for (const auto& [key, value] : json.members()) {
    check(key.starts_with('_') || std::ranges::find(kKeys, key) != kKeys.end(),
          "[weights] {} is not a key of a Wan VAE", value.where());
  }
}

/// Reads a key if it exists and is not null.
template <typename T, typename Read>
void read(const Json& json, std::string_view key, T& into, Read&& as) {
  if (const Json* value = json.find(key); value != nullptr && !value->is_null()) {
    into = as(*value);
  }
}

int64_t integer(const Json& value) { return value.as_int(); }

/// A size for which the file has null instead of 0.
int64_t positive(const Json& value) {
  const int64_t size = value.as_int();
  check(size > 0, "[weights] {} is {} but must be positive or null", value.where(), size);
  return size;
}

std::vector<int64_t> integers(const Json& value) { return value.as_ints(); }

std::vector<double> numbers(const Json& value) {
  std::vector<double> out;
  for (const Json& item : value.items()) {
    out.push_back(item.as_number());
  }
  return out;
}

std::vector<bool> flags(const Json& value) {
  std::vector<bool> out;
  for (const Json& item : value.items()) {
    out.push_back(item.as_bool());
  }
  return out;
}

/// The file may contain the factor of the latents' size, but the levels determine it.
void check_factor(const Json& json, std::string_view key, int64_t made) {
  const Json* value = json.find(key);
  if (value == nullptr || value->is_null()) {
    return;
  }
  check(value->as_int() == made, "[weights] {} is {} but the levels of the VAE make {}",
        value->where(), value->as_int(), made);
}

Json array_of(const auto& values) {
  Json out = Json::array();
  for (const auto& value : values) {
    out.append(Json(value));
  }
  return out;
}

}  // namespace

bool is_vae(const Json& config) {
  const Json* name = config.is_object() ? config.find("_class_name") : nullptr;
  return name != nullptr && name->is_string() && name->as_string() == kClass;
}

vae::Config parse_vae_config(const Json& json) {
  check_words(json);
  vae::Config c;
  c.latents_mean = vae::default_latents_mean();
  c.latents_std = vae::default_latents_std();
  read(json, "base_dim", c.base_dim, integer);
  read(json, "decoder_base_dim", c.decoder_base_dim, positive);
  read(json, "z_dim", c.z_dim, integer);
  read(json, "dim_mult", c.dim_mult, integers);
  read(json, "num_res_blocks", c.num_res_blocks, integer);
  read(json, "attn_scales", c.attn_scales, numbers);
  read(json, "temperal_downsample", c.temperal_downsample, flags);
  read(json, "dropout", c.dropout, [](const Json& value) { return value.as_number(); });
  read(json, "latents_mean", c.latents_mean, numbers);
  read(json, "latents_std", c.latents_std, numbers);
  read(json, "is_residual", c.is_residual, [](const Json& value) { return value.as_bool(); });
  read(json, "in_channels", c.in_channels, integer);
  read(json, "out_channels", c.out_channels, integer);
  read(json, "patch_size", c.patch_size, positive);
  try {
    vae::validate(c);
  } catch (const Error& error) {
    const std::string where = json.where();
    fail("{}\n  read from {}", error.what(), where.substr(0, where.find(": ")));
  }
  check_factor(json, "scale_factor_temporal", c.temporal());
  check_factor(json, "scale_factor_spatial", c.spatial());
  return c;
}

vae::Config read_vae_config(const std::filesystem::path& folder) {
  return parse_vae_config(Json::read(folder / "config.json"));
}

Json vae_config_json(const vae::Config& c) {
  const auto or_null = [](int64_t size) { return size > 0 ? Json(size) : Json(); };
  Json downsample = Json::array();
  for (const bool each : c.temperal_downsample) {
    downsample.append(each);
  }
  return Json::object({{"_class_name", kClass},
                       {"attn_scales", array_of(c.attn_scales)},
                       {"base_dim", c.base_dim},
                       {"decoder_base_dim", or_null(c.decoder_base_dim)},
                       {"dim_mult", array_of(c.dim_mult)},
                       {"dropout", c.dropout},
                       {"in_channels", c.in_channels},
                       {"is_residual", c.is_residual},
                       {"latents_mean", array_of(c.latents_mean)},
                       {"latents_std", array_of(c.latents_std)},
                       {"num_res_blocks", c.num_res_blocks},
                       {"out_channels", c.out_channels},
                       {"patch_size", or_null(c.patch_size)},
                       {"scale_factor_spatial", c.spatial()},
                       {"scale_factor_temporal", c.temporal()},
                       {"temperal_downsample", std::move(downsample)},
                       {"z_dim", c.z_dim}});
}

}  // namespace kinema::weights
