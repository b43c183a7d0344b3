#include "kinema/config/part_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/core/error.h"

namespace kinema::config {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class PartFiles : public testing::Test {
 protected:
  PartFiles()
      : models_(fs::temp_directory_path() / ("kinema_parts_" + std::to_string(::getpid()))) {
    for (const char* file :
         {"checkpoints/all.safetensors", "diffusion_models/wan/high.safetensors", "vae/ae.sft",
          "unet/q4.gguf", "text_encoders/t5xxl.safetensors", "clip/clip_l.safetensors",
          "loras/a.safetensors", "loras/more/b.safetensors", "loras/twice/a.safetensors",
          "vae/note.txt"}) {
      fs::create_directories((models_ / file).parent_path());
      std::ofstream(models_ / file) << "x";
    }
  }
  ~PartFiles() override { fs::remove_all(models_); }

  Loaded load(std::vector<std::string> words) const {
    words.push_back("comfyui_folder=" + models_.string());
    return load_defaults(words, {});
  }
  std::string in(const std::string& file) const { return (models_ / file).string(); }

  fs::path models_;
};

TEST_F(PartFiles, AreFoundByName) {
  const Loaded loaded =
      load({"transformer_file=high.safetensors", "vae_file=ae", "text_encoder_file=clip_l",
            "text_encoder_2_file=t5xxl.safetensors", "pretrained_model_name_or_path=all",
            "lora=b.safetensors:0.5,more/b"});
  const ModelConfig& m = loaded.config.model;
  EXPECT_EQ(m.wan_transformer_pretrained_model_name_or_path,
            in("diffusion_models/wan/high.safetensors"));
  EXPECT_EQ(m.wan_vae_pretrained_model_name_or_path, in("vae/ae.sft"));
  EXPECT_EQ(m.text_encoder_file, in("clip/clip_l.safetensors"));
  EXPECT_EQ(m.text_encoder_2_file, in("text_encoders/t5xxl.safetensors"));
  EXPECT_EQ(m.pretrained_model_name_or_path, in("checkpoints/all.safetensors"));
  EXPECT_THAT(m.lora_config.json, HasSubstr(in("loras/more/b.safetensors")));
  EXPECT_EQ(loaded.config.generate.lora_folder, in("loras"));
  EXPECT_TRUE(loaded.is_set("wan_vae_pretrained_model_name_or_path"));
  EXPECT_FALSE(loaded.is_set("vae_file"));
}

TEST_F(PartFiles, OtherNamesStay) {
  const ModelConfig& m = load({"transformer_file=org/model", "vae_file=note"}).config.model;
  EXPECT_EQ(m.wan_transformer_pretrained_model_name_or_path, "org/model");
  EXPECT_EQ(m.wan_vae_pretrained_model_name_or_path, "note");
}

TEST_F(PartFiles, RefusesWhatIsNotClear) {
  EXPECT_THAT([&] { load({"lora=a.safetensors"}); },
              ThrowsMessage<Error>(HasSubstr("several files `a.safetensors`")));
  EXPECT_THAT(
      [&] {
        load({"vae_file=ae", "wan_vae_pretrained_model_name_or_path=other"});
      },
      ThrowsMessage<Error>(HasSubstr("names of the same key")));
  models_ /= "vae";
  EXPECT_THAT([&] { load({}); }, ThrowsMessage<Error>(HasSubstr("has none of the folders")));
  models_ = models_.parent_path();
}

}  // namespace
}  // namespace kinema::config
