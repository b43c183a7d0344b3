#include "kinema/weights/t5.h"

#include <optional>
#include <string_view>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/model_files/transformers_config.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/weights/folder.h"

namespace kinema::weights {
namespace {

using io::Json;

constexpr std::string_view kT5 = "T5EncoderModel";
constexpr std::string_view kUmt5 = "UMT5EncoderModel";
constexpr std::string_view kShared = "shared.weight";
constexpr std::string_view kOwn = "encoder.embed_tokens.weight";

/// True for a configuration of T5, false for UMT5; nothing for another model's.
std::optional<bool> of_t5(const Json& config) {
  const std::string name = model_files::class_of(config);
  const Json* type = config.is_object() ? config.find("model_type") : nullptr;
  const std::string model = type != nullptr && type->is_string() ? type->as_string() : "";
  if (name == kT5 || (name.empty() && model == "t5")) {
    return true;
  }
  return name == kUmt5 || (name.empty() && model == "umt5") ? std::optional(false) : std::nullopt;
}

}  // namespace

bool is_t5(const Json& config) { return of_t5(config).has_value(); }

std::string t5_class(const t5::EncoderConfig& config) {
  return std::string(config.shared_relative_bias ? kT5 : kUmt5);
}

t5::EncoderConfig parse_t5_config(const Json& json) {
  const std::optional<bool> is_t5 = of_t5(json);
  check(is_t5.has_value(), "[weights] {}: the class is `{}` but must be `{}` or `{}`", json.where(),
        model_files::class_of(json), kT5, kUmt5);
  // Without the key, T5 has a single layer with ReLU; v1.1 has a gate.
  check(!*is_t5 || json.contains("feed_forward_proj"),
        "[weights] {}: `feed_forward_proj` is missing, which means relu; expected gated-gelu "
        "(T5 v1.1)",
        json.where());
  model_files::expect_value(json, "feed_forward_proj", "gated-gelu");
  model_files::expect_value(json, "dense_act_fn", "gelu_new");
  t5::EncoderConfig c;
  c.vocab_size = json.at("vocab_size").as_int();
  c.d_model = json.at("d_model").as_int();
  c.d_kv = json.at("d_kv").as_int();
  c.d_ff = json.at("d_ff").as_int();
  c.num_layers = json.at("num_layers").as_int();
  c.num_heads = json.at("num_heads").as_int();
  c.relative_attention_num_buckets = json.at("relative_attention_num_buckets").as_int();
  if (const Json* distance = json.find("relative_attention_max_distance")) {
    c.relative_attention_max_distance = distance->as_int();
  }
  c.layer_norm_epsilon = json.at("layer_norm_epsilon").as_number();
  c.shared_relative_bias = *is_t5;
  model_files::validated(json, [&] { t5::validate(c); });
  return c;
}

t5::EncoderConfig t5_config(const model_files::Checkpoint& files) {
  if (files.config().is_object()) {
    return parse_t5_config(files.config());
  }
  const auto dims = [&](const std::string& key) -> const Dims& {
    const io::TensorView& view = files.at(key);
    check(view.shape.rank() == 2, "[weights] {}: `{}` is {}, expected a matrix", files.path(),
          view.name, to_string(view.shape));
    return view.shape.dims;
  };
  const auto layer = [](int64_t number, const char* part) {
    return fmt::format("encoder.block.{}.layer.{}.weight", number, part);
  };
  constexpr const char* kBias = "0.SelfAttention.relative_attention_bias";
  t5::EncoderConfig c;
  c.vocab_size = t5_embedding(files).shape.dims.at(0);
  c.d_ff = dims(layer(0, "1.DenseReluDense.wi_0"))[0];
  c.d_model = dims(layer(0, "1.DenseReluDense.wi_0"))[1];
  c.relative_attention_num_buckets = dims(layer(0, kBias))[0];
  c.num_heads = dims(layer(0, kBias))[1];
  const int64_t inner = dims(layer(0, "0.SelfAttention.q"))[0];
  check(c.num_heads > 0 && inner % c.num_heads == 0,
        "[weights] {}: queries of {} do not divide into {} heads", files.path(), inner,
        c.num_heads);
  c.d_kv = inner / c.num_heads;
  for (c.num_layers = 0; files.find(layer(c.num_layers, "0.SelfAttention.q")) != nullptr;) {
    ++c.num_layers;
  }
  c.shared_relative_bias = files.find(layer(1, kBias)) == nullptr;
  try {
    t5::validate(c);
  } catch (const Error& error) {
    fail("{}\n  read off the shapes in {}", error.what(), files.path());
  }
  return c;
}

Json t5_config_json(const t5::EncoderConfig& c) {
  return Json::object({{"architectures", Json::array({t5_class(c)})},
                       {"d_ff", c.d_ff},
                       {"d_kv", c.d_kv},
                       {"d_model", c.d_model},
                       {"dense_act_fn", "gelu_new"},
                       {"feed_forward_proj", "gated-gelu"},
                       {"is_encoder_decoder", false},
                       {"is_gated_act", true},
                       {"layer_norm_epsilon", c.layer_norm_epsilon},
                       {"model_type", c.shared_relative_bias ? "t5" : "umt5"},
                       {"num_heads", c.num_heads},
                       {"num_layers", c.num_layers},
                       {"relative_attention_max_distance", c.relative_attention_max_distance},
                       {"relative_attention_num_buckets", c.relative_attention_num_buckets},
                       {"tie_word_embeddings", false},
                       {"vocab_size", c.vocab_size}});
}

bool is_t5_encoder(const model_files::Checkpoint& files) {
  return files.find("encoder.block.0.layer.0.SelfAttention.q.weight") != nullptr;
}

const io::TensorView& t5_embedding(const model_files::Checkpoint& files) {
  const io::TensorView* own = files.find(kOwn);
  return files.find(kShared) == nullptr && own != nullptr ? *own : files.at(kShared);
}

void check_t5_tensors(const model_files::Checkpoint& files, const t5::EncoderConfig& config) {
  std::vector<nn::ParamSpec> specs = t5::parameters(config, {});
  specs.push_back(t5::embedding_table(config));
  specs.back().name = t5_embedding(files).name.ends_with(kOwn) ? kOwn : kShared;
  check_tensors(files, specs, [](const std::string& key) { return key == kOwn; });
}

}  // namespace kinema::weights
