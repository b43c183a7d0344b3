#include "kinema/weights/clip.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/model_files/file_names.h"
#include "kinema/model_files/transformers_config.h"
#include "kinema/models/clip/siglip.h"
#include "kinema/models/clip/text.h"
#include "kinema/models/clip/vision.h"
#include "kinema/weights/folder.h"

namespace kinema::weights {
namespace {

using io::Json;

/// The prefix of a model's keys in published checkpoints, and a key that exists with and without
/// it.
struct Side {
  std::string_view prefix;
  std::string_view mark;
  std::string_view what;
};
constexpr Side kVision{"vision_model", "embeddings.class_embedding", "vision"};
constexpr Side kSiglip{"vision_model", "embeddings.patch_embedding.bias", "vision"};
constexpr Side kText{"text_model", "embeddings.token_embedding.weight", "text"};
// The key of each model, and keys of other models that may be in the same file.
constexpr std::string_view kProjectionKey = "text_projection.weight";
constexpr std::string_view kPositions = "embeddings.position_ids";

constexpr std::string_view kVisionClass = "CLIPVisionModel";
constexpr std::string_view kTextClass = "CLIPTextModel";
constexpr std::string_view kWithProjection = "CLIPTextModelWithProjection";

struct ActivationWord {
  std::string_view word;
  clip::Activation activation;
};
// Of two names for one activation the first is written.
constexpr std::array kActivations{ActivationWord{"gelu", clip::Activation::GELU},
                                  ActivationWord{"quick_gelu", clip::Activation::QUICK_GELU},
                                  ActivationWord{"gelu_new", clip::Activation::GELU_TANH},
                                  ActivationWord{"gelu_pytorch_tanh", clip::Activation::GELU_TANH}};

clip::Activation activation(const Json& json) {
  const Json* value = json.find("hidden_act");
  if (value == nullptr || value->is_null()) {
    return clip::Activation::QUICK_GELU;  // transformers' default
  }
  const auto* const found =
      std::ranges::find(kActivations, value->as_string(), &ActivationWord::word);
  check(found != kActivations.end(),
        "[weights] {} is `{}`, expected gelu, quick_gelu, gelu_new or gelu_pytorch_tanh",
        value->where(), value->as_string());
  return found->activation;
}

/// The part of a document about one model: all of it if it is about one model only.
const Json& part(const Json& document, std::string_view key) {
  const Json* inner = document.find(key);
  return inner != nullptr && inner->is_object() ? *inner : document;
}

std::string prefix_of(const model_files::Checkpoint& files, const Side& side) {
  const std::string published = std::string(side.prefix) + "." + std::string(side.mark);
  if (files.find(published) != nullptr) {
    return std::string(side.prefix);
  }
  check(files.find(side.mark) != nullptr,
        "[weights] {} has neither `{}` nor `{}`: no CLIP {} model", files.path(), published,
        side.mark, side.what);
  return "";
}

/// True for the text encoder in a file of Stable Diffusion 2. Its last layer and its projection are
/// not read: as in diffusers' folders of the model, the last but one is its last.
bool is_stable_diffusion_2(const model_files::Checkpoint& files) {
  return files.prefix() == model_files::kStableDiffusion2Encoder;
}

/// A key of CLIP's other model, or a buffer of older files.
bool beside(const std::string& key, const std::string& prefix) {
  return key.ends_with(kPositions) || key == "logit_scale" ||
         (!prefix.empty() && !key.starts_with(prefix + "."));
}

}  // namespace

bool is_clip_vision(const Json& config) {
  return model_files::class_of(config).starts_with(kVisionClass);
}
bool is_clip_text(const Json& config) {
  return model_files::class_of(config).starts_with(kTextClass);
}

clip::VisionConfig parse_clip_config(const Json& document) {
  check(is_clip_vision(document) || document.contains("vision_config"),
        "[weights] {} is `{}`, expected a {}", document.where() + "`architectures`",
        model_files::class_of(document), kVisionClass);
  const Json& json = part(document, "vision_config");
  clip::VisionConfig c;
  c.hidden_size = json.at("hidden_size").as_int();
  c.intermediate_size = json.at("intermediate_size").as_int();
  c.num_hidden_layers = json.at("num_hidden_layers").as_int();
  c.num_attention_heads = json.at("num_attention_heads").as_int();
  c.num_channels = model_files::int_or(json, "num_channels", 3);
  c.image_size = json.at("image_size").as_int();
  c.patch_size = json.at("patch_size").as_int();
  c.hidden_act = activation(json);
  c.layer_norm_eps = model_files::number_or(json, "layer_norm_eps", c.layer_norm_eps);
  model_files::validated(document, [&] { clip::validate(c); });
  return c;
}

clip::VisionConfig parse_siglip_config(const Json& document) {
  constexpr std::string_view kClass = "SiglipVisionModel";
  check(model_files::class_of(document) == kClass || document.contains("vision_config"),
        "[weights] {} is `{}`, expected a {}", document.where() + "`architectures`",
        model_files::class_of(document), kClass);
  const Json& json = part(document, "vision_config");
  // transformers' defaults are those of base-patch16-224; its activation is the tanh form.
  clip::VisionConfig c;
  c.hidden_size = model_files::int_or(json, "hidden_size", 768);
  c.intermediate_size = model_files::int_or(json, "intermediate_size", 3072);
  c.num_hidden_layers = model_files::int_or(json, "num_hidden_layers", 12);
  c.num_attention_heads = model_files::int_or(json, "num_attention_heads", 12);
  c.num_channels = model_files::int_or(json, "num_channels", 3);
  c.image_size = model_files::int_or(json, "image_size", 224);
  c.patch_size = model_files::int_or(json, "patch_size", 16);
  c.hidden_act = json.contains("hidden_act") ? activation(json) : clip::Activation::GELU_TANH;
  c.layer_norm_eps = model_files::number_or(json, "layer_norm_eps", 1e-6);
  model_files::validated(document, [&] { clip::validate(c); });
  return c;
}

clip::TextConfig parse_clip_text_config(const Json& document) {
  check(is_clip_text(document) || document.contains("text_config"),
        "[weights] {} is `{}`, expected a {}", document.where() + "`architectures`",
        model_files::class_of(document), kTextClass);
  const Json& json = part(document, "text_config");
  // Missing keys have transformers' defaults.
  clip::TextConfig c;
  c.vocab_size = model_files::int_or(json, "vocab_size", c.vocab_size);
  c.hidden_size = json.at("hidden_size").as_int();
  c.intermediate_size = json.at("intermediate_size").as_int();
  c.num_hidden_layers = json.at("num_hidden_layers").as_int();
  c.num_attention_heads = json.at("num_attention_heads").as_int();
  c.max_position_embeddings =
      model_files::int_or(json, "max_position_embeddings", c.max_position_embeddings);
  c.hidden_act = activation(json);
  c.layer_norm_eps = model_files::number_or(json, "layer_norm_eps", c.layer_norm_eps);
  c.eos_token_id = model_files::int_or(json, "eos_token_id", 49407);
  // A model without a projection has the key too.
  if (model_files::class_of(document) == kWithProjection) {
    c.projection_dim = model_files::int_or(json, "projection_dim", 512);
    check(c.projection_dim > 0, "[weights] {}`projection_dim` is {} but a {} has a projection",
          json.where(), c.projection_dim, kWithProjection);
  }
  model_files::validated(document, [&] { clip::validate(c); });
  return c;
}

Json clip_text_config_json(const clip::TextConfig& c) {
  const bool projects = c.projection_dim > 0;
  return Json::object(
      {{"architectures", Json::array({projects ? kWithProjection : kTextClass})},
       {"bos_token_id", 0},
       {"eos_token_id", c.eos_token_id},
       {"hidden_act",
        std::ranges::find(kActivations, c.hidden_act, &ActivationWord::activation)->word},
       {"hidden_size", c.hidden_size},
       {"intermediate_size", c.intermediate_size},
       {"layer_norm_eps", c.layer_norm_eps},
       {"max_position_embeddings", c.max_position_embeddings},
       {"model_type", "clip_text_model"},
       {"num_attention_heads", c.num_attention_heads},
       {"num_hidden_layers", c.num_hidden_layers},
       {"pad_token_id", 1},
       {"projection_dim",
        projects ? c.projection_dim : c.hidden_size},  // ignored by a model without a projection
       {"vocab_size", c.vocab_size}});
}

clip::TextConfig clip_text_config(const model_files::Checkpoint& files) {
  if (files.config().is_object()) {
    return parse_clip_text_config(files.config());
  }
  constexpr int64_t kHead = 64;
  const std::string prefix = clip_text_prefix(files) + ".";
  const auto dims = [&](const std::string& key) -> const Dims& {
    const io::TensorView& view = files.at(key);
    check(view.shape.rank() == 2, "[weights] {}: `{}` is {}, expected a matrix", files.path(),
          view.name, to_string(view.shape));
    return view.shape.dims;
  };
  const auto layer = [&](int64_t number) {
    return fmt::format("{}encoder.layers.{}.mlp.fc1.weight", prefix, number);
  };
  clip::TextConfig c;
  c.vocab_size = dims(prefix + "embeddings.token_embedding.weight")[0];
  c.max_position_embeddings = dims(prefix + "embeddings.position_embedding.weight")[0];
  c.intermediate_size = dims(layer(0))[0];
  c.hidden_size = dims(layer(0))[1];
  c.num_attention_heads = c.hidden_size / kHead;
  for (c.num_hidden_layers = 0; files.find(layer(c.num_hidden_layers)) != nullptr;) {
    ++c.num_hidden_layers;
  }
  constexpr int64_t kOpenClipH = 1024;  // the width of Stable Diffusion 2's
  if (is_stable_diffusion_2(files)) {
    check(c.num_hidden_layers > 1, "[weights] {}: the text encoder has {} layers, expected several",
          files.path(), c.num_hidden_layers);
    c.num_hidden_layers -= 1;
    c.hidden_act = clip::Activation::GELU;
  } else if (files.find(kProjectionKey) != nullptr) {
    c.projection_dim = dims(std::string(kProjectionKey))[0];
    c.hidden_act = clip::Activation::GELU;
  } else if (c.hidden_size == kOpenClipH) {
    c.hidden_act = clip::Activation::GELU;
  }
  check(c.hidden_size % kHead == 0,
        "[weights] {}: the text encoder is {} wide, which is not a multiple of the head size {}",
        files.path(), c.hidden_size, kHead);
  try {
    clip::validate(c);
  } catch (const Error& error) {
    fail("{}\n  read off the shapes in {}", error.what(), files.path());
  }
  return c;
}

std::string clip_prefix(const model_files::Checkpoint& files) { return prefix_of(files, kVision); }
std::string siglip_prefix(const model_files::Checkpoint& files) {
  return prefix_of(files, kSiglip);
}
std::string clip_text_prefix(const model_files::Checkpoint& files) {
  return prefix_of(files, kText);
}

const io::TensorView& clip_text_embedding(const model_files::Checkpoint& files) {
  return files.at(clip::token_embedding({}, clip_text_prefix(files)).name);
}

void check_clip_tensors(const model_files::Checkpoint& files, const clip::VisionConfig& config) {
  const std::string prefix = clip_prefix(files);
  check_tensors(files, clip::parameters(config, prefix), [&](const std::string& key) {
    return key == "visual_projection.weight" || beside(key, prefix);
  });
}

void check_siglip_tensors(const model_files::Checkpoint& files, const clip::VisionConfig& config) {
  const std::string prefix = siglip_prefix(files);
  const std::string head = prefix.empty() ? "head." : prefix + ".head.";
  check_tensors(files, clip::siglip_parameters(config, prefix), [&](const std::string& key) {
    return key.starts_with(head) || beside(key, prefix);
  });
}

void check_clip_text_tensors(const model_files::Checkpoint& files, const clip::TextConfig& config) {
  const std::string prefix = clip_text_prefix(files);
  std::vector<nn::ParamSpec> specs = clip::text_parameters(config, prefix, {});
  specs.push_back(clip::token_embedding(config, prefix));
  const std::string last = fmt::format("{}.encoder.layers.{}.", prefix, config.num_hidden_layers);
  check_tensors(files, specs, [&](const std::string& key) {
    return beside(key, prefix) || (is_stable_diffusion_2(files) && key.starts_with(last));
  });
}

}  // namespace kinema::weights
