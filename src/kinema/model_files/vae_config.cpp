#include "kinema/model_files/vae_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/model_files/single_file.h"

namespace kinema::model_files {
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

/// Mean and deviation of Wan 2.2's latents.
constexpr std::array kMean48{
    -0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174,  0.1838,  0.1557,  -0.1382, 0.0542,
    0.2813,  0.0891,  0.1570,  -0.0098, 0.0375,  -0.1825, -0.2246, -0.1207, -0.0698, 0.5109,
    0.2665,  -0.2108, -0.2158, 0.2502,  -0.2055, -0.0322, 0.1109,  0.1567,  -0.0729, 0.0899,
    -0.2799, -0.1230, -0.0313, -0.1649, 0.0117,  0.0723,  -0.2839, -0.2083, -0.0520, 0.3748,
    0.0152,  0.1957,  0.1433,  -0.2944, 0.3573,  -0.0548, -0.1681, -0.0667};
constexpr std::array kDeviation48{
    0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.4990, 0.4818, 0.5013, 0.8158, 1.0344, 0.5894, 1.0901,
    0.6885, 0.6165, 0.8454, 0.4978, 0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659,
    0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093, 0.5709, 0.6065, 0.6415, 0.4944,
    0.5726, 1.2042, 0.5458, 1.6887, 0.3971, 1.0600, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744};

/// Reads sizes off the shapes of a file without a configuration.
class Shapes {
 public:
  explicit Shapes(const Checkpoint& files) : files_(files) {}

  vae::Config config() {
    c_.base_dim = dims("encoder.conv_in.weight")[0];
    c_.in_channels = dims("encoder.conv_in.weight")[1];
    c_.out_channels = dims("decoder.conv_out.weight")[0];
    constexpr int64_t kPatched = 12;  // channels of 2 x 2 pixels
    c_.patch_size = c_.in_channels == kPatched ? 2 : 0;
    c_.z_dim = dims("post_quant_conv.weight")[0];
    c_.is_residual = files_.find("encoder.down_blocks.0.resnets.0.conv1.weight") != nullptr;
    c_.dim_mult.clear();
    c_.temperal_downsample.clear();
    c_.is_residual ? read_levels() : read_modules();
    const int64_t decoder = dims("decoder.conv_in.weight")[0] / c_.dim_mult.back();
    c_.decoder_base_dim = decoder == c_.base_dim ? 0 : decoder;
    set_latents();
    return c_;
  }

 private:
  const Dims& dims(const std::string& key) const {
    const io::TensorView& view = files_.at(key);
    check(view.shape.rank() == 5 && view.shape.dims[0] > 0,
          "[weights] {}: `{}` is {}, expected a "
          "convolution of videos",
          files_.path(), view.name, to_string(view.shape));
    return view.shape.dims;
  }
  bool has(const std::string& key) const { return files_.find(key) != nullptr; }

  void end_level(int64_t channels, int64_t resnets) {
    check(c_.base_dim > 0 && channels % c_.base_dim == 0,
          "[weights] {}: a level of {} channels is not a multiple of the first {}", files_.path(),
          channels, c_.base_dim);
    c_.dim_mult.push_back(channels / c_.base_dim);
    c_.num_res_blocks = resnets;
  }

  /// Wan 2.1: all modules of the encoder in a row, `resample` at the end of a level.
  void read_modules() {
    int64_t channels = 0;
    int64_t resnets = 0;
    for (int64_t i = 0;; ++i) {
      const std::string module = fmt::format("encoder.down_blocks.{}.", i);
      if (has(module + "conv1.weight")) {
        channels = dims(module + "conv1.weight")[0];
        ++resnets;
        continue;
      }
      if (resnets > 0) {
        end_level(channels, std::exchange(resnets, 0));
      }
      if (!has(module + "resample.1.weight")) {
        break;
      }
      c_.temperal_downsample.push_back(has(module + "time_conv.weight"));
    }
  }

  /// Wan 2.2: a module for each level.
  void read_levels() {
    for (int64_t level = 0;; ++level) {
      const std::string module = fmt::format("encoder.down_blocks.{}.", level);
      int64_t resnets = 0;
      int64_t channels = 0;
      for (;; ++resnets) {
        const std::string key = fmt::format("{}resnets.{}.conv1.weight", module, resnets);
        if (!has(key)) {
          break;
        }
        channels = dims(key)[0];
      }
      if (resnets == 0) {
        break;
      }
      end_level(channels, resnets);
      if (has(module + "downsampler.resample.1.weight")) {
        c_.temperal_downsample.push_back(has(module + "downsampler.time_conv.weight"));
      }
    }
  }

  void set_latents() {
    c_.latents_mean = vae::default_latents_mean();
    c_.latents_std = vae::default_latents_std();
    if (c_.z_dim == std::ssize(kMean48)) {
      c_.latents_mean.assign(kMean48.begin(), kMean48.end());
      c_.latents_std.assign(kDeviation48.begin(), kDeviation48.end());
    }
    check(c_.z_dim == std::ssize(c_.latents_mean),
          "[weights] {}: the VAE has {} latent channels, and the mean and deviation of its latents "
          "are unknown\n  add a config.json with latents_mean and latents_std next to the file",
          files_.path(), c_.z_dim);
  }

  const Checkpoint& files_;
  vae::Config c_;
};

}  // namespace

vae::Config vae_config(const Checkpoint& files) {
  if (files.config().is_object()) {
    return parse_vae_config(files.config());
  }
  const vae::Config config = Shapes(files).config();
  try {
    vae::validate(config);
  } catch (const Error& error) {
    fail("{}\n  read off the shapes in {}", error.what(), files.path());
  }
  return config;
}

bool is_vae_file(const std::filesystem::path& path) {
  const std::vector<std::string_view> parts = parts_in(path);
  if (std::ranges::find(parts, kVae) == parts.end()) {
    return false;
  }
  const Checkpoint files = Checkpoint::open(path, kVae);
  return files.find("decoder.mid_block.attentions.0.to_qkv.weight") != nullptr;
}

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

}  // namespace kinema::model_files
