#include "kinema/weights/t5.h"

#include <optional>
#include <string_view>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/transformers_config.h"

namespace kinema::weights {
namespace {

using io::Json;

constexpr std::string_view kT5 = "T5EncoderModel";
constexpr std::string_view kUmt5 = "UMT5EncoderModel";
constexpr std::string_view kShared = "shared.weight";
constexpr std::string_view kOwn = "encoder.embed_tokens.weight";

/// Whether a configuration is of T5, not of UMT5; nothing for another model's.
std::optional<bool> of_t5(const Json& config) {
  const std::string name = class_of(config);
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
        class_of(json), kT5, kUmt5);
  // Without the key, T5 has one layer with ReLU where v1.1 has a gate.
  check(!*is_t5 || json.contains("feed_forward_proj"),
        "[weights] {}: `feed_forward_proj` is missing, which stands for relu; expected gated-gelu "
        "(T5 v1.1)",
        json.where());
  expect_word(json, "feed_forward_proj", "gated-gelu");
  expect_word(json, "dense_act_fn", "gelu_new");
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
  validated(json, [&] { t5::validate(c); });
  return c;
}

const io::TensorView& t5_embedding(const io::ModelFolder& folder) {
  const io::TensorView* own = folder.find(kOwn);
  return folder.find(kShared) == nullptr && own != nullptr ? *own : folder.at(kShared);
}

void check_t5_tensors(const io::ModelFolder& folder, const t5::EncoderConfig& config) {
  std::vector<nn::ParamSpec> specs = t5::parameters(config, {});
  specs.push_back(t5::embedding_table(config));
  specs.back().name = t5_embedding(folder).name;
  check_tensors(folder, specs, [](const std::string& key) { return key == kOwn; });
}

}  // namespace kinema::weights
