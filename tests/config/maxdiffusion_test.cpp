// The files of MaxDiffusion's five Wan models have the same keys with few differences: each is
// built here from the keys of the 14B model (maxdiffusion_wan.yml) and its own changes.
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
  EXPECT_THAT(lines, ElementsAre(HasSubstr("no meaning in kinema")));
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
  EXPECT_EQ(config.model.model_type, ModelType::I2V);
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
  EXPECT_EQ(config.model.model_type, ModelType::I2V);
  EXPECT_EQ(config.generate.boundary_ratio, 0.9);
}

// The additional keys of its image models' files (maxdiffusion_images.yml has the common ones).
constexpr const char* kFluxDev = R"(
pretrained_model_name_or_path: 'black-forest-labs/FLUX.1-dev'
clip_model_name_or_path: 'ariG23498/clip-vit-large-patch14-text-flax'
t5xxl_model_name_or_path: 'ariG23498/t5-v1-1-xxl-flax'
flux_name: "flux-dev"
max_sequence_length: 512
time_shift: True
base_shift: 0.5
max_shift: 1.15
offload_encoders: True
weights_dtype: 'bfloat16'
activations_dtype: 'bfloat16'
from_pt: True
attention: 'flash'
train_new_flux: False
dcn_data_parallelism: 1
dcn_fsdp_parallelism: -1
dataset_type: 'tfrecord'
remat_policy: 'FLUX_OPTIMIZED'
names_which_can_be_saved: []
names_which_can_be_offloaded: []
flash_min_seq_length: 0
synthetic_num_samples: 1000
learning_rate: 1.e-5
max_train_steps: 1500
per_device_batch_size: 1
warmup_steps_fraction: 0.1
adam_weight_decay: 0
prompt_2: "A magical castle in the middle of a forest, artistic drawing"
guidance_scale: 3.5
num_inference_steps: 50
save_final_checkpoint: False
profiler: ""
logical_axis_rules: [
  ['batch', 'data'],
  ['activation_batch', ['data','fsdp']],
  ['activation_heads', 'tensor'],
  ['activation_kv', 'tensor'], [mlp,tensor],
  ['embed','fsdp'],
  ['heads', 'tensor'],
  ['conv_batch', ['data','fsdp']],
  ['out_channels', 'tensor'],
  ['conv_out', 'fsdp']]
)";
constexpr const char* kXl = R"(
pretrained_model_name_or_path: 'stabilityai/stable-diffusion-xl-base-1.0'
weights_dtype: 'float32'
activations_dtype: 'bfloat16'
from_pt: False
attention: 'dot_product'
train_new_unet: False
dcn_data_parallelism: -1
learning_rate: 4.e-7
max_train_steps: 200
per_device_batch_size: 2
warmup_steps_fraction: 0.0
adam_weight_decay: 1.e-2
guidance_scale: 9.0
num_inference_steps: 20
logical_axis_rules: [
  ['batch', 'data'],
  ['activation_batch', ['data','fsdp']],
  ['activation_heads', 'tensor'],
  ['activation_kv', 'tensor'],
  ['embed','fsdp'],
  ['heads', 'tensor'],
  ['conv_batch', ['data','fsdp']],
  ['out_channels', 'tensor'],
  ['conv_out', 'fsdp']]
)";

// Of the file for Z-Image (August 2026), and the keys that its newer form has too.
constexpr const char* kZImage = R"(
pretrained_model_name_or_path: "Tongyi-MAI/Z-Image"
prompt: "A red fox"
resolution: 1024
num_inference_steps: 50
seed: 42
output_file: "/tmp/zimage.png"
weights_dtype: "bfloat16"
activations_dtype: "bfloat16"
attention: "flash"
flash_block_sizes: {}
hardware: "tpu"
skip_jax_distributed_system: true
run_name: "zimage"
output_dir: "/tmp/maxdiffusion"
save_config_to_gcs: false
jax_cache_dir: ""
unet_checkpoint: ""
dataset_name: ""
dataset_save_location: "/tmp"
per_device_batch_size: 1
learning_rate_schedule_steps: 1
max_train_steps: 1
compile_topology_num_slices: -1
quantization_local_shard_count: -1
use_qwix_quantization: false
attention_sharding_uniform: true
logical_axis_rules: [["batch", "data"], ["activation_length", "context"],
  ["activation_heads", "tensor"], ["heads", "tensor"], ["mlp", "tensor"], ["embed", "fsdp"],
  ["norm", "tensor"], ["out_channels", "tensor"]]
data_sharding: [["data", "fsdp", "context", "tensor"]]
mesh_axes: ["data", "fsdp", "context", "tensor"]
dcn_data_parallelism: 1
dcn_fsdp_parallelism: 1
dcn_context_parallelism: 1
dcn_tensor_parallelism: 1
ici_data_parallelism: 1
ici_fsdp_parallelism: 1
ici_context_parallelism: 1
ici_tensor_parallelism: -1
allow_split_physical_axes: false
model_name: z_image
model_type: T2I
max_sequence_length: 512
offload_encoders: true
flow_shift: 6.0
guidance_scale: 0.0
pretrained_orbax_dir: ""
scan_layers: true
use_base2_exp: true
use_experimental_scheduler: false
)";

TEST(MaxDiffusion, ZImagesFileIsTakenAsItIs) {
  const fs::path file = fs::path(::testing::TempDir()) / "kinema_maxdiffusion_zimage.yml";
  std::ofstream(file) << kZImage;
  const Loaded loaded = load(file, {});
  const io::Yaml own = io::Yaml::read(file);
  for (const io::Yaml::Member& member : own.members()) {
    EXPECT_TRUE(loaded.origin.contains(member.key)) << member.key;
  }
  EXPECT_EQ(loaded.config.model.model_type, ModelType::T2I);
  EXPECT_EQ(loaded.config.generate.guidance_scale, 0.0);
  EXPECT_EQ(loaded.config.parallel.ici_tensor_parallelism, -1);
}

class MaxDiffusionImagesTest : public ::testing::Test {
 protected:
  static Loaded load_with(const std::string& differences) {
    const fs::path keys = fs::path(KINEMA_SOURCE_DIR) / "tests/config/maxdiffusion_images.yml";
    const fs::path file = fs::path(::testing::TempDir()) / "kinema_maxdiffusion_images.yml";
    std::ofstream(file) << "base: " << keys.string() << '\n' << differences;
    Loaded loaded = load(file, std::vector<std::string>{"run_name=a"});
    const io::Yaml own = io::Yaml::read(file);
    for (const io::Yaml::Member& member : own.members()) {
      EXPECT_TRUE(member.key == "base" || loaded.origin.contains(member.key)) << member.key;
    }
    const std::vector<std::string> lines = notices(loaded, "train");
    EXPECT_THAT(lines, ElementsAre(HasSubstr("no meaning in kinema")));
    return loaded;
  }
};

TEST_F(MaxDiffusionImagesTest, FluxIsTrainedOnRecordsAsItsFileSays) {
  const Config config = load_with(kFluxDev).config;
  EXPECT_EQ(config.data.dataset_type, DatasetType::TFRECORD);
  EXPECT_EQ(config.generate.height, 1024);
  EXPECT_EQ(config.optimizer.learning_rate, 1e-5);
  // Its files leave the remaining devices to the data axis.
  EXPECT_EQ(config.parallel.ici_data_parallelism, -1);
  EXPECT_EQ(config.parallel.dcn_context_parallelism, 1);
}

TEST_F(MaxDiffusionImagesTest, StableDiffusionXlIsTrainedOnADataSetOfTheHub) {
  const Config config = load_with(kXl).config;
  EXPECT_EQ(config.data.dataset_type, DatasetType::HF);
  EXPECT_EQ(config.data.dataset_name, "diffusers/pokemon-gpt4-captions");
  EXPECT_FALSE(config.model.train_new_unet);
}

TEST_F(MaxDiffusionImagesTest, TheAxisThatIsGivenToTakeWhatIsLeftTakesIt) {
  Loaded loaded = load_with(kXl);
  EXPECT_EQ(loaded.config.parallel.ici_context_parallelism, 1);
  set(loaded, "ici_data_parallelism", "2");
  EXPECT_EQ(loaded.config.parallel.ici_context_parallelism, -1);
  set(loaded, "ici_context_parallelism", "4");
  set(loaded, "ici_fsdp_parallelism", "-1");
  EXPECT_EQ(loaded.config.parallel.ici_context_parallelism, 4);
}

}  // namespace
}  // namespace kinema::config
