// A whole pipeline in one file, and LoRA files for it, in `generate`.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "io/scratch.h"
#include "jobs/one_pipeline_file.h"
#include "kinema/core/host_array.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/image.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(OnePipelineFile, SaysThatTokenizersAreMissing) {
  const Outcome outcome = generate({});
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("there is no tokenizer/ for sdxl.safetensors"),
                                 HasSubstr("tokenizer_folder")));
}

TEST_F(OnePipelineFile, MakesPicturesWithTokenizersOfAPipeline) {
  fs::create_directory(folder_ / "words");
  bring_tokenizers(folder_ / "words");
  const Outcome outcome =
      generate({"wan_text_encoder_pretrained_model_name_or_path=words", "enable_lora=true",
                "lora_config={lora_model_name_or_path: [" +
                    io::golden("lora/sdxl_kohya.safetensors").string() + "]}"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has_picture());
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("all 576 keys matched"),
                                 HasSubstr("text_encoder: sdxl_kohya.safetensors: 12 modules"),
                                 HasSubstr("text_encoder_2: sdxl_kohya.safetensors: 18 modules")));
}

TEST_F(OnePipelineFile, MakesAPictureAgainFromTheSettingsInside) {
  bring_tokenizers(folder_);
  ASSERT_EQ(generate({"seed=5"}).status, 0);
  const std::string picture = "out/samples/sdxl/000_a_red_square.png";
  run({"generate", picture}).expect_error("was made with pretrained_model_name_or_path");
  const Outcome again = run(
      {"generate", picture, "pretrained_model_name_or_path=sdxl.safetensors", "output_dir=again"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(media::read_image(folder_ / "again/samples/sdxl/000_a_red_square.png").bytes,
            media::read_image(folder_ / picture).bytes);
}

TEST_F(OnePipelineFile, IsAskedForPicturesOfTheSizeThatItsUNetWasTrainedOn) {
  bring_tokenizers(folder_);
  const Outcome outcome = run({"generate", "sdxl.safetensors", "prompt=a red square",
                               "num_inference_steps=1", "contact_sheet=False", "output_dir=out"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  ASSERT_TRUE(has_picture());
  // sample_size 8
  EXPECT_EQ(media::read_image(folder_ / "out/samples/sdxl/000_a_red_square.png").shape.dims,
            (Dims{64, 64, 3}));
}

TEST_F(OnePipelineFile, IsTrainedWhereverItsEncodingsAreKept) {
  for (const char* part : {"tokenizer", "tokenizer_2"}) {
    fs::copy(io::golden(std::string("sdxl/") + part), folder_ / part);
  }
  write("train.yml",
        "output_dir: out\npretrained_model_name_or_path: sdxl.safetensors\n"
        "dataset_type: images\nresolution: 32\nmax_train_steps: 2\n"
        "weights_dtype: float32\nactivations_dtype: float32\ntrain_data_dir: " +
            io::golden("dataset").string() + "\n");
  for (const std::string location : {"", "kept"}) {
    const Outcome outcome = run({"train", "train.yml", "run_name=kept_in_" + location,
                                 "dataset_save_location=" + location});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  EXPECT_EQ(losses("kept_in_kept"), losses("kept_in_"));
  // Other text encoders give other states.
  const std::string models = read_text(folder_ / "kept/models.json");
  EXPECT_THAT(models, HasSubstr("sdxl.safetensors"));
}

TEST_F(OnePipelineFile, IsNotALora) {
  const std::string lora = io::golden("lora/sdxl_kohya.safetensors").string();
  for (const std::string key :
       {"pretrained_model_name_or_path", "wan_transformer_pretrained_model_name_or_path"}) {
    const Outcome outcome = generate({key + "=" + lora});
    EXPECT_NE(outcome.status, 0);
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr(key + ": " + lora + " is LoRA"), HasSubstr("lora=" + lora)));
  }
}

TEST_F(OnePipelineFile, RefusesAdaptersOfAnotherFamily) {
  const Outcome outcome =
      generate({"enable_lora=true", "lora_config={lora_model_name_or_path: [" +
                                        io::golden("lora/flux_kohya.safetensors").string() + "]}"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(
      outcome.err,
      HasSubstr("flux_kohya.safetensors is for Flux, but the model is Stable Diffusion XL"));
}

TEST_F(OnePipelineFile, BecomesAFolderThatMakesTheSamePicture) {
  const Outcome bare = run({"convert", "sdxl.safetensors", "bare", "--to", "diffusers"});
  ASSERT_EQ(bare.status, 0) << bare.err;
  EXPECT_THAT(bare.err, AllOf(HasSubstr("bare lacks tokenizer/, tokenizer_2/, which "
                                        "sdxl.safetensors does not contain"),
                              HasSubstr("of a StableDiffusionXLPipeline")));
  bring_tokenizers(folder_);
  const Outcome whole = run({"convert", "sdxl.safetensors", "whole", "--to", "diffusers"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_THAT(whole.err, testing::Not(HasSubstr("lacks")));
  for (const char* part : {"unet", "vae", "text_encoder", "text_encoder_2", "tokenizer",
                           "tokenizer_2", "scheduler", "model_index.json"}) {
    EXPECT_TRUE(fs::exists(folder_ / "whole" / part)) << part;
  }
  EXPECT_EQ(run({"inspect", "--check", "whole"}).status, 0);
  EXPECT_EQ(latents({}, "whole").bytes, latents({}, "sdxl.safetensors").bytes);

  run({"convert", "whole", "again", "--to", "diffusers"})
      .expect_error("whole is a diffusers folder already");
  const Outcome narrow =
      run({"convert", "whole", "narrow", "--to", "diffusers", "--dtype", "bfloat16"});
  EXPECT_EQ(narrow.status, 0) << narrow.err;
  EXPECT_TRUE(fs::exists(folder_ / "narrow/config.json"));
  const Outcome comfy = run({"convert", "sdxl.safetensors", "unet.safetensors", "--to", "comfyui"});
  EXPECT_THAT(comfy.err, HasSubstr("vae, text_encoder, text_encoder_2 are skipped"));
}

// As in ComfyUI's files of Flux, without T5.
TEST_F(OnePipelineFile, OfFluxBecomesTheModelsThatItHolds) {
  std::vector<io::SafetensorsFile> files;
  std::vector<io::TensorEntry> entries;
  fs::create_directory(folder_ / "flux");
  for (const auto& [file, prefix, part] :
       {std::tuple{"single/flux_schnell.safetensors", "model.diffusion_model.", "transformer"},
        std::tuple{"single/flux_ae.safetensors", "vae.", "vae"},
        std::tuple{"flux_schnell/text_encoder/model.safetensors",
                   "text_encoders.clip_l.transformer.", "text_encoder"}}) {
    files.push_back(io::SafetensorsFile::open(io::golden(file)));
    for (const io::TensorView& tensor : files.back().tensors()) {
      entries.push_back(io::TensorEntry::of(prefix + tensor.name, tensor));
    }
    fs::create_directory(folder_ / "flux" / part);
    fs::copy_file(io::golden(std::string("flux_schnell/") + part + "/config.json"),
                  folder_ / "flux" / part / "config.json");
  }
  io::write_safetensors(folder_ / "flux/flux.safetensors", entries);
  const Outcome made = run({"convert", "flux/flux.safetensors", "whole", "--to", "diffusers"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, AllOf(HasSubstr("whole lacks tokenizer/, text_encoder_2/, tokenizer_2/"),
                              HasSubstr("of a FluxPipeline")));
  for (const char* part : {"text_encoder_2", "tokenizer", "tokenizer_2"}) {
    fs::copy(io::golden(std::string("flux_schnell/") + part), folder_ / "whole" / part,
             fs::copy_options::recursive);
  }
  const Outcome picture = generate({"max_sequence_length=16"}, "whole");
  EXPECT_EQ(picture.status, 0) << picture.err;
  EXPECT_TRUE(has_picture("whole"));
}

TEST_F(OnePipelineFile, LeavesNoIncompleteFolder) {
  fs::create_directory(folder_ / "scheduler");
  std::ofstream(folder_ / "scheduler/scheduler_config.json") << "{}";
  run({"convert", "sdxl.safetensors", "whole", "--to", "diffusers"}).expect_error("_class_name");
  EXPECT_FALSE(fs::exists(folder_ / "whole"));
}

TEST_F(OnePipelineFile, KeepsTheUNetsBlocksNarrow) {
  ASSERT_EQ(run({"convert", "sdxl.safetensors", "whole", "--to", "diffusers"}).status, 0);
  bring_tokenizers(folder_ / "whole");
  const HostArray plain = latents({}, "whole");
  const auto expect_near = [&](const HostArray& found) {
    double most = 0;
    for (size_t i = 0; i < found.as<float>().size(); ++i) {
      most = std::max<double>(most, std::abs(found.as<float>()[i] - plain.as<float>()[i]));
    }
    EXPECT_GT(most, 0);  // something was rounded,
    EXPECT_LT(most,
              0.02);  // to 7 or 3 bits, of latents up to 2.4, which are mostly noise
  };
  const HostArray int8 = latents({"weights_storage=int8"}, "whole");
  expect_near(int8);
  expect_near(latents({"weights_storage=float8_e4m3fn"}, "whole"));
  for (const std::string to : {"int8", "fp8"}) {
    const std::string file = to + ".safetensors";
    ASSERT_EQ(run({"convert", "whole/unet", file, "--to", to}).status, 0);
    expect_near(latents({"wan_transformer_pretrained_model_name_or_path=" + file}, "whole"));
  }
  // Codes in a file are not rounded again.
  EXPECT_EQ(latents({"wan_transformer_pretrained_model_name_or_path=int8.safetensors",
                     "weights_storage=int8"},
                    "whole")
                .bytes,
            int8.bytes);
}

}  // namespace
}  // namespace kinema::jobs_test
