#include "kinema/weights/clip.h"

#include <map>

#include "kinema/core/error.h"
#include "kinema/models/clip/vision.h"
#include "kinema/weights/folder.h"

namespace kinema::weights {
namespace {

using io::Json;

constexpr std::string_view kMark = "embeddings.class_embedding";
constexpr std::string_view kPrefix = "vision_model";

std::string class_of(const Json& config) {
  const Json* names = config.is_object() ? config.find("architectures") : nullptr;
  return names != nullptr && names->is_array() && !names->items().empty() &&
                 names->items()[0].is_string()
             ? names->items()[0].as_string()
             : "";
}

int64_t size_or(const Json& json, std::string_view key, int64_t otherwise) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? otherwise : value->as_int();
}

clip::Activation activation(const Json& json) {
  const Json* value = json.find("hidden_act");
  if (value == nullptr || value->is_null()) {
    return clip::Activation::QUICK_GELU;  // transformers' default
  }
  static const std::map<std::string, clip::Activation> known{
      {"gelu", clip::Activation::GELU},
      {"quick_gelu", clip::Activation::QUICK_GELU},
      {"gelu_new", clip::Activation::GELU_TANH},
      {"gelu_pytorch_tanh", clip::Activation::GELU_TANH}};
  const auto found = known.find(value->as_string());
  check(found != known.end(),
        "[weights] {} is `{}`, expected gelu, quick_gelu, gelu_new or gelu_pytorch_tanh",
        value->where(), value->as_string());
  return found->second;
}

}  // namespace

bool is_clip_vision(const Json& config) { return class_of(config).starts_with("CLIPVisionModel"); }

clip::VisionConfig parse_clip_config(const Json& document) {
  check(is_clip_vision(document) || document.contains("vision_config"),
        "[weights] {} is `{}`, expected a CLIPVisionModel", document.where() + "`architectures`",
        class_of(document));
  const Json* inner = document.find("vision_config");
  const Json& json = inner != nullptr && inner->is_object() ? *inner : document;
  clip::VisionConfig c;
  c.hidden_size = json.at("hidden_size").as_int();
  c.intermediate_size = json.at("intermediate_size").as_int();
  c.num_hidden_layers = json.at("num_hidden_layers").as_int();
  c.num_attention_heads = json.at("num_attention_heads").as_int();
  c.num_channels = size_or(json, "num_channels", 3);
  c.image_size = json.at("image_size").as_int();
  c.patch_size = json.at("patch_size").as_int();
  c.hidden_act = activation(json);
  if (const Json* eps = json.find("layer_norm_eps"); eps != nullptr && !eps->is_null()) {
    c.layer_norm_eps = eps->as_number();
  }
  try {
    clip::validate(c);
  } catch (const Error& error) {
    const std::string where = document.at("architectures").where();
    fail("{}\n  read from {}", error.what(), where.substr(0, where.find(": ")));
  }
  return c;
}

std::string clip_prefix(const io::ModelFolder& folder) {
  const std::string published = std::string(kPrefix) + "." + std::string(kMark);
  if (folder.find(published) != nullptr) {
    return std::string(kPrefix);
  }
  check(folder.find(kMark) != nullptr,
        "[weights] {} has neither `{}` nor `{}`: no CLIP vision model", folder.path(), published,
        kMark);
  return "";
}

void check_clip_tensors(const io::ModelFolder& folder, const clip::VisionConfig& config) {
  const std::string prefix = clip_prefix(folder);
  check_tensors(folder, clip::parameters(config, prefix), [&](const std::string& key) {
    return key.ends_with("embeddings.position_ids") || key == "visual_projection.weight" ||
           (!prefix.empty() && !key.starts_with(prefix + "."));
  });
}

}  // namespace kinema::weights
