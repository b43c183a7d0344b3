#include "kinema/resolve/foreign_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kinema/core/error.h"

namespace kinema::resolve {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kGraph = R"({
  "3": {"class_type": "KSampler", "is_changed": [NaN], "inputs": {"seed": 5, "steps": 20, "cfg": 8.0,
        "sampler_name": "dpmpp_2m", "scheduler": "karras", "denoise": 1.0, "model": ["4", 0],
        "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["5", 0]}},
  "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd_xl.safetensors"}},
  "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 768, "height": 512, "batch_size": 1}},
  "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a (fox:1.2) [x]", "clip": ["4", 1]}},
  "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry NaN", "clip": ["4", 1]}},
  "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["4", 2]}}})";

TEST(SettingsOfOtherPrograms, AreReadFromParameters) {
  const ForeignSettings settings = settings_of_parameters(
      "a (red:1.2) ball\non grass\nNegative prompt: blurry, dark\nStill negative\n"
      "Steps: 20, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 6.5, Seed: 12, "
      "Size: 640x512, Model: x, Clip skip: 2, Lora hashes: \"a: 1, b: 2\", Version: v1.9",
      "a.png");
  EXPECT_THAT(settings.not_read, testing::ElementsAre("Clip skip"));
  const io::Json& made = settings.keys;
  EXPECT_EQ(made.at("prompt").as_string(), "a (red:1.2) ball\non grass");
  EXPECT_EQ(made.at("negative_prompt").as_string(), "blurry, dark\nStill negative");
  EXPECT_EQ(made.at("prompt_syntax").as_string(), "a1111");
  EXPECT_EQ(made.at("num_inference_steps").as_int(), 20);
  EXPECT_EQ(made.at("scheduler").as_string(), "DPM++ 2M");
  EXPECT_EQ(made.at("noise_levels").as_string(), "karras");
  EXPECT_EQ(made.at("guidance_scale").as_number(), 6.5);
  EXPECT_EQ(made.at("seed").as_int(), 12);
  EXPECT_EQ(made.at("width").as_int(), 640);
  EXPECT_EQ(made.at("height").as_int(), 512);
  EXPECT_THAT([] { settings_of_parameters("a ball", "a.png"); },
              ThrowsMessage<Error>(HasSubstr("no line `Steps: 20")));
  EXPECT_THAT([] { settings_of_parameters("", "a.png"); },
              ThrowsMessage<Error>(HasSubstr("a.png")));
}

TEST(SettingsOfOtherPrograms, AreReadFromPlainGraphs) {
  const io::Json made = settings_of_comfyui(kGraph, "a.png").keys;
  EXPECT_EQ(made.find("num_images_per_prompt"), nullptr);
  EXPECT_EQ(made.at("seed").as_int(), 5);
  EXPECT_EQ(made.at("prompt").as_string(), "a (fox:1.2) \\[x\\]");
  EXPECT_EQ(made.at("negative_prompt").as_string(), "blurry NaN");
  EXPECT_EQ(made.at("scheduler").as_string(), "dpmpp_2m");
  EXPECT_EQ(made.at("noise_levels").as_string(), "karras");
  EXPECT_EQ(made.at("num_inference_steps").as_int(), 20);
  EXPECT_EQ(made.at("height").as_int(), 512);
}

std::string graph_with(const std::string& from, const std::string& to) {
  std::string graph = kGraph;
  graph.replace(graph.find(from), from.size(), to);
  return graph;
}

TEST(SettingsOfOtherPrograms, HaveSeedsOf64BitsAndBatches) {
  // Its seeds are drawn from all 64 bits.
  const auto seed = [](const std::string& text) {
    return settings_of_comfyui(graph_with("\"seed\": 5", "\"seed\": " + text), "a.png")
        .keys.at("seed")
        .as_int();
  };
  EXPECT_EQ(seed("9223372036854775807"), 9223372036854775807);
  EXPECT_GE(seed("18446744073709551615"), 0);
  EXPECT_NE(seed("9223372036854779904"), seed("9223372036854784000"));
  EXPECT_THROW(seed("-1"), Error);
  EXPECT_THROW(seed("1e30"), Error);
  EXPECT_THROW(seed("\"x\""), Error);
  EXPECT_EQ(settings_of_comfyui(graph_with("\"batch_size\": 1", "\"batch_size\": 3"), "a.png")
                .keys.at("num_images_per_prompt")
                .as_int(),
            3);
}

TEST(SettingsOfOtherPrograms, ThatAreNotReadAreNamed) {
  const auto levels = [](const std::string& name) {
    return settings_of_comfyui(graph_with("karras", name), "a.png");
  };
  EXPECT_THAT(levels("sgm_uniform").not_read, testing::ElementsAre("scheduler sgm_uniform"));
  EXPECT_THAT(levels("normal").not_read, testing::IsEmpty());
  EXPECT_THAT(
      settings_of_comfyui(graph_with("VAEDecode\"", "ImageUpscaleWithModel\""), "a.png").not_read,
      testing::ElementsAre("node ImageUpscaleWithModel"));
  const ForeignSettings made = settings_of_parameters(
      "a\nSteps: 20, Sampler: Euler, Schedule type: Align Your Steps, Seed: 1", "a.png");
  EXPECT_EQ(made.keys.at("noise_levels").as_string(), "ays");
}

TEST(SettingsOfOtherPrograms, OtherGraphsAreRefusedByTheirNode) {
  EXPECT_THAT(
      [&] {
        settings_of_comfyui(graph_with("\"clip\": [\"4\", 1]", "\"clip\": [\"5\", 0]"), "a.png");
      },
      ThrowsMessage<Error>(HasSubstr("`clip` comes from a node EmptyLatentImage")));
  EXPECT_THAT([&] { settings_of_comfyui(graph_with("EmptyLatentImage", "VAEEncode"), "a.png"); },
              ThrowsMessage<Error>(HasSubstr("comes from a node VAEEncode")));
  EXPECT_THAT(
      [&] { settings_of_comfyui(graph_with("\"denoise\": 1.0", "\"denoise\": 0.5"), "a.png"); },
      ThrowsMessage<Error>(HasSubstr("denoise is the number 0.5")));
  EXPECT_THAT([&] { settings_of_comfyui(graph_with("KSampler", "KSamplerAdvanced"), "a.png"); },
              ThrowsMessage<Error>(HasSubstr("no node KSampler")));
  EXPECT_THAT([] { settings_of_comfyui("[]", "a.png"); }, ThrowsMessage<Error>(HasSubstr("nodes")));
}

}  // namespace
}  // namespace kinema::resolve
