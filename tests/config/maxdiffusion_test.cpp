// The files of MaxDiffusion's five Wan models are one list of keys with few differences: each is
// put together here from the keys of the 14B model (maxdiffusion_wan.yml) and what its file has
// else.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/config/keys.h"
#include "kinema/io/yaml.h"

namespace kinema::config {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const fs::path kKeys = fs::path(KINEMA_SOURCE_DIR) / "tests/config/maxdiffusion_wan.yml";

class MaxDiffusionTest : public ::testing::Test {
 protected:
  Loaded load_with(const std::string& differences) {
    const fs::path file = fs::path(::testing::TempDir()) / "kinema_maxdiffusion.yml";
    std::ofstream(file) << "base: " << kKeys.string() << '\n' << differences;
    return load(file);
  }
};

TEST_F(MaxDiffusionTest, EachKeyHasAMeaningOrIsNamedAsWithoutOne) {
  const Loaded loaded = load(kKeys);

  const io::Yaml file = io::Yaml::read(kKeys);
  ASSERT_GT(file.members().size(), 170U);
  for (const io::Yaml::Member& member : file.members()) {
    EXPECT_TRUE(loaded.origin.contains(member.key)) << member.key;
  }
  const std::vector<std::string> lines = notices(
      load(kKeys, std::vector<std::string>{"run_name=a", "train_data_dir=records"}), "train");
  EXPECT_THAT(lines, ElementsAre(HasSubstr("no meaning here")));
  for (const std::string& key : loaded.ignored) {
    EXPECT_THAT(lines[0], HasSubstr(key));
  }
}

TEST_F(MaxDiffusionTest, NumbersThatYaml11TakesForTextAreNumbers) {
  const Config config = load(kKeys).config;
  EXPECT_EQ(config.optimizer.learning_rate, 1e-5);
  EXPECT_EQ(config.optimizer.adam_eps, 1e-8);
}

TEST_F(MaxDiffusionTest, TheSmallTextToVideoModel) {
  const Config config = load_with(R"(
pretrained_model_name_or_path: 'Wan-AI/Wan2.1-T2V-1.3B-Diffusers'
flash_min_seq_length: 0
height: 480
width: 832
flow_shift: 3.0
num_inference_steps: 30
lora_config: {rank: [64], lora_model_name_or_path: [''], weight_name: [''], adapter_name: [''], scale: [1.0], from_pt: []}
)")
                            .config;
  EXPECT_EQ(config.model.pretrained_model_name_or_path, "Wan-AI/Wan2.1-T2V-1.3B-Diffusers");
  EXPECT_EQ(config.model.flash_min_seq_length, 0);
  EXPECT_EQ(config.generate.num_inference_steps, 30);
}

TEST_F(MaxDiffusionTest, TheTwoExpertsOfTextToVideo) {
  const Config config = load_with(R"(
pretrained_model_name_or_path: 'Wan-AI/Wan2.2-T2V-A14B-Diffusers'
model_name: wan2.2
flow_shift: 12.0
guidance_scale_low: 3.0
guidance_scale_high: 4.0
boundary_ratio: 0.875
use_sen_cache: False
magcache_thresh: 0.04
num_inference_steps: 40
quantization_calibration_method: absmax
)")
                            .config;
  EXPECT_EQ(config.model.model_name, "wan2.2");
  EXPECT_EQ(config.generate.boundary_ratio, 0.875);
}

TEST_F(MaxDiffusionTest, ImageToVideo) {
  const Config config = load_with(R"(
pretrained_model_name_or_path: 'Wan-AI/Wan2.1-I2V-14B-720P-Diffusers'
model_type: 'I2V'
flash_block_sizes: {
  "block_q" : 2048,
  "block_kv_compute" : 512,
  "block_kv" : 2048,
  "block_q_dkv" : 2048,
  "block_kv_dkv" : 2048,
  "block_kv_dkv_compute" : 512,
  "use_fused_bwd_kernel": True,
}
diffusion_scheduler_config: {prediction_type: flow_prediction, timestep_spacing: linspace}
mag_ratios_base_720p: [1.0, 0.99]
mag_ratios_base_480p: [1.0, 0.98]
use_sen_cache: False
quantization_calibration_method: absmax
image_url: 'https://127.0.0.1/astronaut.jpg'
)")
                            .config;
  EXPECT_EQ(config.model.model_type, "I2V");
  EXPECT_EQ(config.generate.mag_ratios_base_480p, (std::vector<double>{1.0, 0.98}));
}

TEST_F(MaxDiffusionTest, TheTwoExpertsOfImageToVideo) {
  const Config config = load_with(R"(
pretrained_model_name_or_path: 'Wan-AI/Wan2.2-I2V-A14B-Diffusers'
model_name: wan2.2
model_type: 'I2V'
boundary_ratio: 0.900
guidance_scale_low: 3.0
guidance_scale_high: 4.0
magcache_thresh: 0.06
quantization_calibration_method: absmax
image_url: 'https://127.0.0.1/astronaut.jpg'
)")
                            .config;
  EXPECT_EQ(config.model.model_type, "I2V");
  EXPECT_EQ(config.generate.boundary_ratio, 0.9);
}

}  // namespace
}  // namespace kinema::config
