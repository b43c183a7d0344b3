#include "kinema/config/lora.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::config {
namespace {

using io::Json;

constexpr std::array<std::string_view, 7> kFileKeys{"lora_model_name_or_path",
                                                    "weight_name",
                                                    "high_noise_weight_name",
                                                    "low_noise_weight_name",
                                                    "adapter_name",
                                                    "scale",
                                                    "from_pt"};

/// Properties of the trained adapter in lora_config, and the corresponding keys.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kTrainedKeys{
    {{"rank", "lora_rank"},
     {"lora_alpha", "lora_alpha"},
     {"lora_target_modules", "lora_target_modules"},
     {"lora_dropout", "lora_dropout"},
     {"use_rslora", "use_rslora"},
     {"init", "lora_init"}}};

bool is_key(std::string_view key) {
  return std::ranges::find(kFileKeys, key) != kFileKeys.end() ||
         std::ranges::any_of(kTrainedKeys, [&](const auto& each) { return each.first == key; });
}

/// The items of a list, or a single value; empty if the key is absent or null.
std::vector<Json> items(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  if (value == nullptr || value->is_null()) {
    return {};
  }
  return value->is_array() ? value->items() : std::vector<Json>{*value};
}

/// Text items; null is empty text. If the key is absent, all are empty.
std::vector<std::string> words(const Json& json, std::string_view key, size_t count) {
  std::vector<std::string> out;
  for (const Json& item : items(json, key)) {
    out.push_back(item.is_null() ? "" : item.as_string());
  }
  check(out.empty() || out.size() == count,
        "[config] lora_config: {} has {} items but lora_model_name_or_path has {}", key, out.size(),
        count);
  out.resize(count);
  return out;
}

std::vector<double> scales(const Json& json, size_t count) {
  std::vector<double> out;
  for (const Json& item : items(json, "scale")) {
    out.push_back(item.as_number());
    check(std::abs(out.back()) <= 1e6,
          "[config] lora_config: the scale {} is not between -1e6 and 1e6", out.back());
  }
  check(out.empty() || out.size() == count,
        "[config] lora_config: scale has {} items but lora_model_name_or_path has {}", out.size(),
        count);
  out.resize(count, 1.0);
  return out;
}

}  // namespace

std::vector<LoraChoice> lora_choices(const ModelConfig& config) {
  if (!config.enable_lora) {
    return {};
  }
  const Json json = Json::parse(config.lora_config.json, "lora_config");
  if (json.is_null()) {
    return {};
  }
  check(json.is_object(), "[config] enable_lora is true but lora_config is {}\n  {}",
        json.describe(), "give lora_config: {lora_model_name_or_path: [FILE], scale: [1.0]}");
  for (const auto& [key, value] : json.members()) {
    check(is_key(key),
          "[config] lora_config has no key `{}`: it has lora_model_name_or_path, weight_name, "
          "high_noise_weight_name, low_noise_weight_name, adapter_name, scale, rank, lora_alpha, "
          "lora_target_modules, lora_dropout, use_rslora, init",
          key);
  }
  std::vector<LoraChoice> out;
  for (const Json& source : items(json, "lora_model_name_or_path")) {
    out.push_back({.name = "", .source = source.as_string()});
    check(!out.back().source.empty(), "[config] lora_config: lora_model_name_or_path is empty");
  }
  const auto both = words(json, "weight_name", out.size());
  const auto high = words(json, "high_noise_weight_name", out.size());
  const auto low = words(json, "low_noise_weight_name", out.size());
  const auto names = words(json, "adapter_name", out.size());
  const auto scale = scales(json, out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const bool split = !high[i].empty() || !low[i].empty();
    check(!split || both[i].empty(),
          "[config] lora_config: weight_name and {}_noise_weight_name are both given for `{}`",
          high[i].empty() ? "low" : "high", out[i].source);
    out[i].file = split ? high[i] : both[i];
    out[i].file_2 = split ? low[i] : both[i];
    out[i].for_first = !split || !high[i].empty();
    out[i].for_second = !split || !low[i].empty();
    out[i].name = names[i].empty() ? out[i].source : names[i];
    out[i].scale = scale[i];
  }
  return out;
}

std::vector<LoraChoice> training_lora_choices(const ModelConfig& config) {
  if (config.training_lora.empty()) {
    return {};
  }
  ModelConfig own = config;
  own.enable_lora = true;
  own.lora_config.json = with_lora_files("null", config.training_lora);
  return lora_choices(own);
}

std::string with_lora_files(const std::string& lora_config, const std::string& lora) {
  Json out = Json::parse(lora_config, "lora_config");
  check(out.is_null() || out.is_object(), "[config] lora names files, but lora_config is {}",
        out.describe());
  if (out.is_null()) {
    out = Json::object();
  }
  std::vector<Json> sources = items(out, "lora_model_name_or_path");
  std::vector<Json> scales = items(out, "scale");
  scales.resize(sources.size(), Json(1.0));
  const size_t before = sources.size();
  for (size_t begin = 0; begin <= lora.size();) {
    const size_t end = std::min(lora.find(',', begin), lora.size());
    std::string file = lora.substr(begin, end - begin);
    double scale = 1.0;
    if (const size_t colon = file.rfind(':'); colon != std::string::npos) {
      const char* const last = file.data() + file.size();
      const auto [stop, error] = std::from_chars(file.data() + colon + 1, last, scale);
      if (error == std::errc() && stop == last) {
        file.resize(colon);
      } else {
        scale = 1.0;  // a part of the name, as in gs://
      }
    }
    check(!file.empty(), "[config] lora is `{}`, expected FILE[:scale][,FILE[:scale]...]", lora);
    check(!file.ends_with(':'),
          "[config] lora: there is no scale after the colon of `{}`, expected FILE or FILE:0.8",
          file);
    check(std::isfinite(scale) && std::abs(scale) <= 1e6,
          "[config] lora: the scale of `{}` is {}, expected a number between -1e6 and 1e6, most "
          "often 0 to 1",
          file, scale);
    sources.emplace_back(file);
    scales.emplace_back(scale);
    begin = end + 1;
  }
  for (const char* key :
       {"weight_name", "high_noise_weight_name", "low_noise_weight_name", "adapter_name"}) {
    if (std::vector<Json> own = items(out, key); own.size() == before && before > 0) {
      own.resize(sources.size());
      out.set(key, Json::array(std::move(own)));
    }
  }
  out.set("lora_model_name_or_path", Json::array(std::move(sources)));
  out.set("scale", Json::array(std::move(scales)));
  return out.dump(-1);
}

std::vector<std::pair<std::string, std::string>> trained_in_lora_config(const ModelConfig& config) {
  std::vector<std::pair<std::string, std::string>> out;
  if (!config.enable_lora) {
    return out;
  }
  const Json json = Json::parse(config.lora_config.json, "lora_config");
  for (const auto& [key, ours] : kTrainedKeys) {
    const Json* value = json.is_object() ? json.find(key) : nullptr;
    if (value == nullptr || value->is_null()) {
      continue;
    }
    const bool is_modules = ours == "lora_target_modules";
    if (value->is_array() && !is_modules) {  // one item per adapter, of which the first is trained
      if (value->items().empty()) {
        continue;
      }
      value = &value->items().front();
    }
    out.emplace_back(ours, value->is_string() ? value->as_string() : value->dump(-1));
  }
  return out;
}

}  // namespace kinema::config
