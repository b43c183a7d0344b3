// Given keys that have no effect with a model, for every family.
#include "kinema/resolve/missing_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/scratch.h"
#include "kinema/io/atomic_write.h"
#include "kinema/networks/open.h"

namespace kinema::resolve {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

networks::Network network(const std::string& path) { return networks::open(io::golden(path)); }
networks::Network wan() { return networks::from_config(networks::default_config()); }
networks::Network dev() { return network("flux_dev/transformer"); }
networks::Network schnell() { return network("flux_schnell/transformer"); }
networks::Network sdxl() { return network("sdxl/unet"); }

std::vector<std::string> generating(const networks::Network& model,
                                    const std::vector<std::string>& words,
                                    const sample::GenerateRequest& request = {}) {
  const config::Loaded loaded = config::load_defaults(words);
  return config::model_notices(loaded, "generate",
                               missing_features(model, false, loaded.config, request));
}
std::vector<std::string> training(const networks::Network& model, std::vector<std::string> words) {
  words.insert(words.end(), {"run_name=a"});
  const config::Loaded loaded = config::load_defaults(words);
  return config::model_notices(loaded, "train", missing_features(model, false, loaded.config));
}

TEST(KeysWithoutEffect, AreNamedWithTheInputThatTheModelLacks) {
  EXPECT_THAT(generating(sdxl(), {"max_sequence_length=9", "num_frames=9", "true_cfg_scale=2",
                                  "clip_skip=1", "flow_shift=3", "guidance_scale=4"}),
              ElementsAre(AllOf(HasSubstr("these keys have no effect: "),
                                HasSubstr("max_sequence_length (this model's text has 77 tokens)"),
                                HasSubstr("num_frames (this model makes images)"),
                                HasSubstr("true_cfg_scale (this model uses guidance_scale)"),
                                HasSubstr("flow_shift (this model is a diffusion)"),
                                Not(HasSubstr("clip_skip")), Not(HasSubstr("guidance_scale (")))));
  EXPECT_THAT(
      generating(sdxl(), {"model_type=I2V", "weighting_scheme=none", "prediction_type=epsilon"}),
      ElementsAre(AllOf(HasSubstr("model_type (this model makes images)"),
                        HasSubstr("weighting_scheme (this model is a diffusion)"),
                        Not(HasSubstr("prediction_type")))));
  EXPECT_THAT(
      generating(schnell(),
                 {"guidance_scale=4", "clip_skip=1", "original_size=[8, 8]", "model_type=I2V"}),
      ElementsAre(AllOf(HasSubstr("model_type (this model makes images)"),
                        HasSubstr("guidance_scale (this model takes no guidance scale)"),
                        HasSubstr("clip_skip (this model uses no inner layer of CLIP)"),
                        HasSubstr("original_size (this model takes no size conditioning)"))));
  EXPECT_THAT(generating(dev(), {"guidance_scale=4", "max_sequence_length=64", "prompt_2=b"}),
              IsEmpty());
  EXPECT_THAT(generating(wan(), {"num_frames=9", "prompt_2=b", "boundary_ratio=0.5",
                                 "num_images_per_prompt=2", "fps=8"}),
              ElementsAre(AllOf(HasSubstr("prompt_2 (this model has one text encoder)"),
                                HasSubstr("boundary_ratio (this model has one transformer)"),
                                HasSubstr("num_images_per_prompt (this model makes videos)"),
                                Not(HasSubstr("num_frames")), Not(HasSubstr("fps")))));
}

TEST(KeysWithoutEffect, AreThoseOfANegativePromptWhereNothingIsGuidedByOne) {
  const std::string given = "negative_prompt=blurred";
  const sample::GenerateRequest negative{.negative_prompt = "blurred"};
  EXPECT_THAT(generating(dev(), {given}, negative),
              ElementsAre(HasSubstr("negative_prompt (without true_cfg_scale above 1)")));
  EXPECT_THAT(generating(dev(), {given, "true_cfg_scale=2"},
                         {.negative_prompt = "blurred", .true_cfg_scale = 2}),
              IsEmpty());
  EXPECT_THAT(generating(dev(), {"true_cfg_scale=2"}, {.true_cfg_scale = 2}),
              ElementsAre(HasSubstr("true_cfg_scale (without negative_prompt)")));
  EXPECT_THAT(generating(sdxl(), {given}, negative), IsEmpty());
  EXPECT_THAT(generating(sdxl(), {given, "guidance_rescale=0.5"},
                         {.negative_prompt = "blurred", .guidance_scale = 1}),
              ElementsAre(AllOf(HasSubstr("negative_prompt (without guidance_scale above 1)"),
                                HasSubstr("guidance_rescale (without guidance_scale above 1)"))));
  EXPECT_THAT(
      generating(sdxl(), {given, "do_classifier_free_guidance=false"},
                 {.negative_prompt = "blurred", .guidance_scale = 1}),
      ElementsAre(HasSubstr("negative_prompt (set with do_classifier_free_guidance=false)")));
}

TEST(KeysWithoutEffect, OfTrainingAreNamedToo) {
  EXPECT_THAT(training(sdxl(), {"train_guidance_scale=2", "frame_stride=2", "snr_gamma=5"}),
              ElementsAre(AllOf(HasSubstr("train_guidance_scale (this model takes no"),
                                HasSubstr("frame_stride (this model makes images)"),
                                Not(HasSubstr("snr_gamma")))));
  EXPECT_THAT(training(dev(), {"train_guidance_scale=2", "stratified_timesteps=true"}), IsEmpty());
  EXPECT_THAT(training(schnell(), {"train_guidance_scale=2"}),
              ElementsAre(HasSubstr("train_guidance_scale (this model takes no")));
  // A line that needs no model is not repeated.
  EXPECT_THAT(training(sdxl(), {"num_inference_steps=2", "true_cfg_scale=2"}), IsEmpty());
}

TEST(KeysWithoutEffect, AreThoseThatWereGivenWithTheCommandAlone) {
  const io::Scratch scratch;
  const auto file = scratch / "both.yml";
  io::write_file(file, "max_sequence_length: 9\nclip_skip: 2\n");
  config::Loaded loaded = config::load(file, {}, std::vector<std::string>{"KINEMA_KEY_FPS=8"});
  EXPECT_THAT(
      config::model_notices(loaded, "generate", missing_features(sdxl(), false, loaded.config)),
      ElementsAre("these keys have no effect: fps (this model makes images)"));
}

}  // namespace
}  // namespace kinema::resolve
