#include "kinema/weights/qwen3.h"

#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/model_files/transformers_config.h"
#include "kinema/models/qwen3/encoder.h"
#include "kinema/weights/folder.h"

namespace kinema::weights {
namespace {

using io::Json;

constexpr std::string_view kBare = "Qwen3Model";
constexpr std::string_view kCausal = "Qwen3ForCausalLM";

/// Throws an Error if a key, which may be missing, is true or a number above 0.
void expect_off(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  check(value == nullptr || value->is_null() || value->brief() == "false",
        "[weights] {} is {}, expected {}", value == nullptr ? "" : value->where(),
        value == nullptr ? "" : value->brief(), "false: this build knows no other");
}

/// `rope_theta`, which transformers 5 writes inside `rope_parameters`.
double rope_theta(const Json& json) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* rope = json.find(key);
    if (rope == nullptr || rope->is_null()) {
      continue;
    }
    const Json* type = rope->find("rope_type");
    check(type == nullptr || type->as_string() == "default",
          "[weights] {} is {}, expected `default`: this build knows no scaled rotary embedding",
          rope->where(), rope->brief());
    if (rope->contains("rope_theta")) {
      return rope->at("rope_theta").as_number();
    }
  }
  return json.at("rope_theta").as_number();
}

bool is_of_end(std::string_view key, const qwen3::EncoderConfig& config) {
  return key == "lm_head.weight" || key == "norm.weight" ||
         key.starts_with(fmt::format("layers.{}.", config.num_hidden_layers - 1));
}

}  // namespace

bool is_qwen3(const Json& config) {
  const std::string name = model_files::class_of(config);
  const Json* type = config.is_object() ? config.find("model_type") : nullptr;
  return name == kBare || name == kCausal ||
         (name.empty() && type != nullptr && type->is_string() && type->as_string() == "qwen3");
}

qwen3::EncoderConfig parse_qwen3_config(const Json& json) {
  check(is_qwen3(json), "[weights] {}: the class is `{}` but must be `{}` or `{}`", json.where(),
        model_files::class_of(json), kBare, kCausal);
  model_files::expect_value(json, "hidden_act", "silu");
  expect_off(json, "attention_bias");
  expect_off(json, "use_sliding_window");
  qwen3::EncoderConfig c;
  c.vocab_size = json.at("vocab_size").as_int();
  c.hidden_size = json.at("hidden_size").as_int();
  c.intermediate_size = json.at("intermediate_size").as_int();
  c.num_hidden_layers = json.at("num_hidden_layers").as_int();
  c.num_attention_heads = json.at("num_attention_heads").as_int();
  c.num_key_value_heads = json.at("num_key_value_heads").as_int();
  c.head_dim = model_files::int_or(json, "head_dim", c.head_dim);
  c.rms_norm_eps = json.at("rms_norm_eps").as_number();
  c.rope_theta = rope_theta(json);
  model_files::validated(json, [&] { qwen3::validate(c); });
  return c;
}

qwen3::EncoderConfig qwen3_config(const model_files::Checkpoint& files,
                                  const std::filesystem::path& config) {
  if (files.config().is_object() && is_qwen3(files.config())) {
    return parse_qwen3_config(files.config());
  }
  if (!config.empty()) {
    return parse_qwen3_config(Json::read(config));
  }
  const auto size = [&](const std::string& key, size_t axis) {
    const io::TensorView& view = files.at(key);
    check(axis < view.shape.dims.size(), "[weights] {}: `{}` is {}, expected more axes",
          files.path(), view.name, to_string(view.shape));
    return view.shape.dims[axis];
  };
  qwen3::EncoderConfig c;
  c.vocab_size = size("embed_tokens.weight", 0);
  c.hidden_size = size("embed_tokens.weight", 1);
  c.intermediate_size = size("layers.0.mlp.gate_proj.weight", 0);
  c.head_dim = size("layers.0.self_attn.q_norm.weight", 0);
  check(c.head_dim > 0, "[weights] {}: heads of no channels", files.path());
  c.num_attention_heads = size("layers.0.self_attn.q_proj.weight", 0) / c.head_dim;
  c.num_key_value_heads = size("layers.0.self_attn.k_proj.weight", 0) / c.head_dim;
  for (c.num_hidden_layers = 0; files.find(fmt::format("layers.{}.input_layernorm.weight",
                                                       c.num_hidden_layers)) != nullptr;) {
    ++c.num_hidden_layers;
  }
  try {
    qwen3::validate(c);
  } catch (const Error& error) {
    fail("{}\n  read off the shapes in {}", error.what(), files.path());
  }
  return c;
}

Json qwen3_config_json(const qwen3::EncoderConfig& c) {
  return Json::object({{"architectures", Json::array({kBare})},
                       {"attention_bias", false},
                       {"head_dim", c.head_dim},
                       {"hidden_act", "silu"},
                       {"hidden_size", c.hidden_size},
                       {"intermediate_size", c.intermediate_size},
                       {"model_type", "qwen3"},
                       {"num_attention_heads", c.num_attention_heads},
                       {"num_hidden_layers", c.num_hidden_layers},
                       {"num_key_value_heads", c.num_key_value_heads},
                       {"rms_norm_eps", c.rms_norm_eps},
                       {"rope_theta", c.rope_theta},
                       {"tie_word_embeddings", true},
                       {"use_sliding_window", false},
                       {"vocab_size", c.vocab_size}});
}

bool is_qwen3_encoder(const model_files::Checkpoint& files) {
  return files.find("layers.0.self_attn.q_norm.weight") != nullptr &&
         files.find("embed_tokens.weight") != nullptr;
}

void check_qwen3_tensors(const model_files::Checkpoint& files, const qwen3::EncoderConfig& config) {
  qwen3::EncoderOptions read;
  read.skipped_layers = 1;
  std::vector<nn::ParamSpec> specs = qwen3::parameters(config, read);
  specs.push_back(qwen3::embedding_table(config));
  check_tensors(files, specs, [&](const std::string& key) { return is_of_end(key, config); });
}

}  // namespace kinema::weights
