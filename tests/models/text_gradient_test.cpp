// Text encoders inside a network: gradients into them, and what they make of token ids.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "graph/gradient_check.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/networks/inner_model.h"
#include "kinema/networks/open.h"
#include "kinema/networks/with_text.h"

namespace kinema::networks {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kTokens = 5;
constexpr int64_t kVocabulary = 7;
constexpr int64_t kWidth = 4;

Network unet_of_width(int64_t width) {
  io::Json config = io::Json::read(io::golden("control/sd15/unet/config.json"));
  return from_config(config.set("cross_attention_dim", width));
}

InnerText tiny_text(int64_t learned_rows = 0) {
  return {.part = "text_encoder",
          .config = {.vocab_size = kVocabulary,
                     .hidden_size = kWidth,
                     .intermediate_size = 6,
                     .num_hidden_layers = 2,
                     .num_attention_heads = 2,
                     .max_position_embeddings = kTokens},
          .prefix = "text_model",
          .hidden_norm = true,
          .tokens = kTokens,
          .dtype = DType::F64,
          .precision = Precision::HIGHEST,
          .learned_rows = learned_rows};
}

/// The text states as a function of the encoder's parameters, for these ids.
GradientCase text_case(const std::string& name, const InnerText& text,
                       const nn::ModelOptions& options, const std::vector<int32_t>& ids) {
  const Network plain = unet_of_width(kWidth);
  GradientCase out{.name = name, .function = {}, .inputs = {}};
  for (const nn::ParamSpec& spec : with_text(plain, {text})->parameters(options)) {
    if (!inner_part(spec.name).empty()) {
      out.inputs.push_back(random_f64(spec.shape.dims, 0.2, 0.8, out.inputs.size() + 1));
    }
  }
  const size_t params = out.inputs.size();
  out.inputs.push_back(HostArray::from<int32_t>(DType::S32, {1, kTokens, 1}, ids));
  out.function = [=](std::span<const Tensor> all) {
    Inputs inputs{.latents = {}, .timestep = {}, .text = all[params]};
    encode_text(plain, std::vector{text}, all.first(params), options, inputs);
    return inputs.text;
  };
  return out;
}

TEST(TextEncodersInside, HaveGradientsIntoEveryParameter) {
  nn::ModelOptions adapted;
  adapted.low_ranks["text_encoder.text_model.encoder.layers.{}.self_attn.v_proj"] = 1;
  adapted.low_ranks["text_encoder.text_model.encoder.layers.{}.mlp.fc2"] = 2;
  expect_gradients_match({text_case("whole", tiny_text(), {}, {1, 4, 4, 2, 6}),
                          text_case("adapters", tiny_text(), adapted, {1, 3, 2, 5, 6}),
                          text_case("learned words", tiny_text(2), {},
                                    {1, kVocabulary, kVocabulary + 1, kVocabulary, 6})});
}

TEST(TextEncodersInside, ChangeTheInputsOfTheNetwork) {
  const Network plain = unet_of_width(kWidth);
  const Network inside = with_text(plain, {tiny_text()});
  EXPECT_EQ(inside.sizes().text_dim, 1);
  EXPECT_EQ(inside.sizes().encoder_tokens, kTokens);
  EXPECT_TRUE(inside.sizes().text_is_ids);
  const std::vector<nn::ParamSpec> specs = inside->parameters({});
  EXPECT_EQ(specs.front().name, plain->parameters({}).front().name);
  EXPECT_EQ(specs.back().name.find("text_encoder.text_model."), 0U);
  const std::vector<ModelSpecs> models = by_model(specs);
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0].specs.size(), plain->parameters({}).size());
  EXPECT_EQ(models[1].part, "text_encoder");
  EXPECT_EQ(models[1].specs.front().name, "text_model.embeddings.token_embedding.weight");
  EXPECT_EQ(inside->inner_configs().at("text_encoder").at("hidden_size").as_int(), kWidth);
  EXPECT_THAT([&] { with_text(unet_of_width(8), {tiny_text()}); },
              ThrowsMessage<Error>(HasSubstr("states of width 4, but the network takes 8")));
  EXPECT_THAT(
      [&] {
        with_text(plain, {tiny_text(), tiny_text()});
      },
      ThrowsMessage<Error>(HasSubstr("2 text encoders")));
}

}  // namespace
}  // namespace kinema::networks
