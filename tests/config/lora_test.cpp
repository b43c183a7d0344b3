#include "kinema/config/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/config/config.h"
#include "kinema/core/error.h"

namespace kinema::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<LoraChoice> read(const std::string& text) {
  ModelConfig config;
  config.enable_lora = true;
  config.lora_config.json = text;
  return lora_choices(config);
}

TEST(LoraChoices, AreNoneUntilSwitchedOn) {
  ModelConfig config;
  config.lora_config.json = R"({"lora_model_name_or_path": ["a"]})";
  EXPECT_TRUE(lora_choices(config).empty());
}

TEST(LoraChoices, ReadMaxDiffusionsListsForOneTransformer) {
  const auto choices = read(
      R"({"rank": [64, 32], "lora_model_name_or_path": ["org/one", "two"], "weight_name":
          ["a.safetensors", null], "adapter_name": ["first", ""], "scale": [1.0, 0.5],
          "from_pt": []})");

  ASSERT_EQ(choices.size(), 2U);
  EXPECT_EQ(choices[0], (LoraChoice{.name = "first",
                                    .source = "org/one",
                                    .file = "a.safetensors",
                                    .file_2 = "a.safetensors",
                                    .scale = 1.0}));
  EXPECT_EQ(choices[1], (LoraChoice{.name = "two", .source = "two", .scale = 0.5}));
}

TEST(LoraChoices, ReadAFileForEachExpert) {
  const auto choices = read(
      R"({"lora_model_name_or_path": ["org/one", "org/two"],
          "high_noise_weight_name": ["high.safetensors", null],
          "low_noise_weight_name": ["low.safetensors", "only.safetensors"]})");

  ASSERT_EQ(choices.size(), 2U);
  EXPECT_EQ(choices[0].file, "high.safetensors");
  EXPECT_EQ(choices[0].file_2, "low.safetensors");
  EXPECT_TRUE(choices[0].for_first && choices[0].for_second);
  EXPECT_FALSE(choices[1].for_first);
  EXPECT_EQ(choices[1].file_2, "only.safetensors");
  EXPECT_EQ(choices[1].scale, 1.0);
}

TEST(LoraChoices, TakeAnItemAloneForAListOfOne) {
  const auto choices = read(R"({"lora_model_name_or_path": "a.safetensors", "scale": 2})");

  ASSERT_EQ(choices.size(), 1U);
  EXPECT_EQ(choices[0].source, "a.safetensors");
  EXPECT_EQ(choices[0].scale, 2.0);
}

TEST(LoraChoices, NameTheProblem) {
  const auto refuses = [](const char* text, const char* why) {
    SCOPED_TRACE(text);
    EXPECT_THAT([&] { read(text); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refuses("[]", "lora_config is");
  refuses(R"({"lora_model_name_or_path": [""]})", "is empty");
  refuses(R"({"lora_model_name_or_path": [3]})", "must be");
  refuses(R"({"lora_model_name_or_path": ["a"], "scales": [1]})", "no key `scales`");
  refuses(R"({"lora_model_name_or_path": ["a"], "scale": [1, 2]})", "scale has 2 items");
  refuses(R"({"lora_model_name_or_path": ["a"], "scale": ["x"]})", "must be");
  refuses(R"({"lora_model_name_or_path": ["a"], "weight_name": ["x", "y"]})", "has 2 items");
  refuses(R"({"lora_model_name_or_path": ["a"], "weight_name": ["x"],
              "low_noise_weight_name": ["y"]})",
          "both given");
}

TEST(LoraChoices, AreNoneWhereNoFileIsNamed) {
  EXPECT_TRUE(read("null").empty());
  EXPECT_TRUE(read("{}").empty());
  EXPECT_TRUE(read(R"({"rank": [8], "lora_model_name_or_path": []})").empty());
}

TEST(LoraConfig, SetsAdapterKeysThatAreNotSet) {
  const std::string given =
      "lora_config={rank: [8, 4], lora_alpha: 12, init: gaussian, "
      "lora_target_modules: [to_q, to_k], use_rslora: true}";
  const Loaded loaded = load_defaults(std::vector<std::string>{"enable_lora=true", given});
  const ModelConfig& model = loaded.config.model;
  EXPECT_EQ(model.lora_rank, 8);
  EXPECT_TRUE(model.lora_rank.given);
  EXPECT_EQ(model.lora_alpha, 12);
  EXPECT_EQ(model.lora_init, LoraInit::GAUSSIAN);
  EXPECT_THAT(model.lora_target_modules, ElementsAre("to_q", "to_k"));
  EXPECT_TRUE(model.use_rslora);
  EXPECT_EQ(load_defaults(std::vector<std::string>{"enable_lora=true", given, "lora_rank=2"})
                .config.model.lora_rank,
            2);
  EXPECT_EQ(load_defaults(std::vector<std::string>{given}).config.model.lora_rank, 16);
  EXPECT_THAT(
      [] {
        load_defaults(std::vector<std::string>{"enable_lora=true", "lora_config={rank: [many]}"});
      },
      ThrowsMessage<Error>(HasSubstr("lora_rank")));
}

TEST(LoraFiles, HaveAShortForm) {
  const Loaded loaded = load_defaults(
      std::vector<std::string>{"lora=a.safetensors:0.8,org/b,gs://bucket/c.safetensors:-1"});
  EXPECT_TRUE(loaded.config.model.enable_lora);
  EXPECT_EQ(loaded.config.model.lora, "");
  const std::vector<LoraChoice> choices = lora_choices(loaded.config.model);
  ASSERT_EQ(choices.size(), 3U);
  EXPECT_EQ(choices[0].source, "a.safetensors");
  EXPECT_EQ(choices[0].scale, 0.8);
  EXPECT_EQ(choices[1].source, "org/b");
  EXPECT_EQ(choices[1].scale, 1.0);
  EXPECT_EQ(choices[2].source, "gs://bucket/c.safetensors");
  EXPECT_EQ(choices[2].scale, -1.0);
  // The saved text gives the same entries.
  EXPECT_TRUE(loaded.is_set("lora_config"));
  EXPECT_FALSE(loaded.is_set("lora"));
}

TEST(LoraFiles, FollowThoseOfLoraConfig) {
  const Loaded loaded = load_defaults(std::vector<std::string>{
      "lora=b:0.5",
      "lora_config={lora_model_name_or_path: org/a, high_noise_weight_name: [x], rank: [4]}"});
  const std::vector<LoraChoice> choices = lora_choices(loaded.config.model);
  ASSERT_EQ(choices.size(), 2U);
  EXPECT_EQ(choices[0].file, "x");
  EXPECT_FALSE(choices[0].for_second);
  EXPECT_EQ(choices[0].scale, 1.0);
  EXPECT_EQ(choices[1].source, "b");
  EXPECT_EQ(choices[1].scale, 0.5);
  EXPECT_TRUE(choices[1].for_second);
  EXPECT_EQ(loaded.config.model.lora_rank, 4);
}

TEST(LoraFiles, HaveAScaleAfterTheirColon) {
  const auto load = [](const char* word) { load_defaults(std::vector<std::string>{word}); };
  EXPECT_THAT(
      [&] { load("lora=a.safetensors:"); },
      ThrowsMessage<Error>(HasSubstr("there is no scale after the colon of `a.safetensors:`")));
  EXPECT_THAT([&] { load("lora=a.safetensors:nan"); },
              ThrowsMessage<Error>(HasSubstr("the scale of `a.safetensors` is nan, expected")));
}

TEST(LoraFiles, AreNamed) {
  for (const char* wrong : {"lora=a,,b", "lora=:0.5", "lora=,", "lora=a:1e9", "lora=a:nan"}) {
    EXPECT_THAT([&] { load_defaults(std::vector<std::string>{wrong}); },
                ThrowsMessage<Error>(HasSubstr("[config] lora")))
        << wrong;
  }
  EXPECT_FALSE(load_defaults(std::vector<std::string>{"lora="}).config.model.enable_lora);
}

TEST(LoraTargets, MayBeOneWord) {
  const Loaded loaded =
      load_defaults(std::vector<std::string>{"lora_target_modules=attention+ffn"});
  EXPECT_THAT(loaded.config.model.lora_target_modules, ElementsAre("attention+ffn"));
}

TEST(LoraTraining, NeedsAModel) {
  const std::vector<std::string> words{"run_name=a", "enable_lora=true",
                                       "pretrained_model_name_or_path="};
  EXPECT_THAT([&] { notices(load_defaults(words), "train"); },
              ThrowsMessage<Error>(HasSubstr("trains an adapter of a model")));
}

}  // namespace
}  // namespace kinema::config
