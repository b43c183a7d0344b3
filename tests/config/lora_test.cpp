#include "kinema/config/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/config/config.h"
#include "kinema/core/error.h"

namespace kinema::config {
namespace {

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

TEST(LoraChoices, NameWhatIsWrong) {
  const auto refuses = [](const char* text, const char* why) {
    SCOPED_TRACE(text);
    EXPECT_THAT([&] { read(text); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refuses("null", "lora_config is empty");
  refuses("[]", "lora_config is");
  refuses("{}", "names no file");
  refuses(R"({"lora_model_name_or_path": []})", "names no file");
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

TEST(LoraChoices, AreRefusedInTraining) {
  const std::vector<std::string> words{"run_name=a", "enable_lora=true"};
  EXPECT_THAT([&] { notices(load_defaults(words), "train"); },
              ThrowsMessage<Error>(HasSubstr("enable_lora")));
}

}  // namespace
}  // namespace kinema::config
