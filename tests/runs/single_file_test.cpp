// A whole pipeline in one file, and LoRA files of its family, as a user of `generate` gives them.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "runs/call_kinema.h"

namespace kinema::runs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class OnePipelineFile : public RunsTest {
 protected:
  void SetUp() override {
    KinemaOnCpu::SetUp();
    if (IsSkipped()) {
      return;
    }
    // Sizes of a tiny model are not the released ones: they are said beside the file.
    fs::copy_file(io::golden("single/sdxl.safetensors"), folder_ / "sdxl.safetensors");
    for (const char* part : {"unet", "vae", "text_encoder", "text_encoder_2"}) {
      fs::create_directory(folder_ / part);
      fs::copy_file(io::golden(std::string("sdxl/") + part + "/config.json"),
                    folder_ / part / "config.json");
    }
  }

  Outcome generate(const std::vector<std::string>& keys) {
    std::vector<std::string> words{
        "generate", "sdxl.safetensors",      "prompt=a red square", "height=32",
        "width=32", "num_inference_steps=1", "contact_sheet=False", "output_dir=out"};
    words.insert(words.end(), keys.begin(), keys.end());
    return run(words);
  }
  bool has_picture() const { return fs::exists(folder_ / "out/samples/000_a_red_square.png"); }
};

TEST_F(OnePipelineFile, SaysThatTokenizersAreMissing) {
  const Outcome outcome = generate({});
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("sdxl.safetensors holds no tokenizers"),
                                 HasSubstr("wan_text_encoder_pretrained_model_name_or_path")));
}

TEST_F(OnePipelineFile, MakesPicturesWithTokenizersOfAPipeline) {
  fs::create_directory(folder_ / "words");
  for (const char* part : {"tokenizer", "tokenizer_2"}) {
    fs::copy(io::golden(std::string("sdxl/") + part), folder_ / "words" / part);
  }
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
  // Other text encoders are other states.
  const std::string models = read_text(folder_ / "kept/models.json");
  EXPECT_THAT(models, HasSubstr("sdxl.safetensors"));
}

TEST_F(OnePipelineFile, IsNoLora) {
  const std::string lora = io::golden("lora/sdxl_kohya.safetensors").string();
  for (const std::string key :
       {"pretrained_model_name_or_path", "wan_transformer_pretrained_model_name_or_path"}) {
    const Outcome outcome = generate({key + "=" + lora});
    EXPECT_NE(outcome.status, 0);
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr(key + " is " + lora + ", a LoRA"),
                      HasSubstr("enable_lora=true lora_config={lora_model_name_or_path: [")));
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

}  // namespace
}  // namespace kinema::runs_test
