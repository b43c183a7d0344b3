#include "kinema/weights/umt5.h"

#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/models/umt5/encoder.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/transformers_config.h"

namespace kinema::weights {
namespace {

using io::Json;

constexpr std::string_view kEncoder = "UMT5EncoderModel";
constexpr std::string_view kShared = "shared.weight";
constexpr std::string_view kOwn = "encoder.embed_tokens.weight";

}  // namespace

bool is_umt5(const Json& config) { return class_of(config) == kEncoder; }

umt5::EncoderConfig parse_umt5_config(const Json& json) {
  check(is_umt5(json), "[weights] {}: the class is `{}` but must be `{}`", json.where(),
        class_of(json), kEncoder);
  expect_word(json, "feed_forward_proj", "gated-gelu");
  expect_word(json, "dense_act_fn", "gelu_new");
  umt5::EncoderConfig c;
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
  validated(json, [&] { umt5::validate(c); });
  return c;
}

const io::TensorView& umt5_embedding(const io::ModelFolder& folder) {
  const io::TensorView* own = folder.find(kOwn);
  return folder.find(kShared) == nullptr && own != nullptr ? *own : folder.at(kShared);
}

void check_umt5_tensors(const io::ModelFolder& folder, const umt5::EncoderConfig& config) {
  std::vector<nn::ParamSpec> specs = umt5::parameters(config, {});
  specs.push_back(umt5::embedding_table(config));
  specs.back().name = umt5_embedding(folder).name;
  check_tensors(folder, specs, [](const std::string& key) { return key == kOwn; });
}

}  // namespace kinema::weights
