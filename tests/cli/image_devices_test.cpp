// Image models on several CPU devices, run by the binary: the compiler aborts on programs that it
// cannot partition.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "arrays.h"
#include "cli/run_kinema.h"
#include "kinema/io/safetensors.h"

namespace kinema::cli_test {
namespace {

class ImageDevices : public KinemaTest {
 protected:
  const std::string golden_ = std::string(KINEMA_SOURCE_DIR) + "/tests/golden";
  const std::string shapes_ = std::string(KINEMA_SOURCE_DIR) + "/examples/shapes";
};

TEST_F(ImageDevices, MakeThePictureOfOneOfAnOddSize) {
  const auto latents = [&](const std::string& devices) {
    const std::string name = devices + ".safetensors";
    const Outcome made =
        run({"generate", golden_ + "/sdxl", "prompt=a ball", "height=72", "width=88",
             "num_inference_steps=2", "weights_dtype=float32", "activations_dtype=float32",
             "cpu_device_count=" + devices, "save_latents=" + name});
    EXPECT_EQ(made.status, 0) << made.err;
    return io::SafetensorsFile::open(folder_ / name).at("latents").copy();
  };
  // Another order of summation, over two steps of values up to 7.
  EXPECT_LT(largest_difference(latents("1"), latents("2")), 1e-4);
}

TEST_F(ImageDevices, TrainADiffusion) {
  write("images.yml", "output_dir: out\ntrain_data_dir: " + golden_ +
                          "/dataset\ndataset_type: images\nresolution: 20\nautoencoder: "
                          "space_to_depth\nspace_to_depth_block: 2\ntext_encoder: hashed\n"
                          "pretrained_model_name_or_path: ''\nmax_sequence_length: 4\n"
                          "weights_dtype: float32\n"
                          "activations_dtype: float32\nnum_inference_steps: 2\nmax_train_steps: 2\n"
                          "learning_rate: 1e-3\nglobal_batch_size: "
                          "2\nlearning_rate_schedule_steps: 2\nsnr_gamma: 5\n"
                          "network_config: " +
                          shapes_ + "/unet.json\n");
  for (const char* devices : {"1", "2"}) {
    const Outcome made = run({"train", "images.yml", std::string("run_name=") + devices,
                              std::string("cpu_device_count=") + devices});
    ASSERT_EQ(made.status, 0) << made.err;
  }
  const std::vector<std::string> one = losses("1");
  const std::vector<std::string> two = losses("2");
  ASSERT_EQ(two.size(), one.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(std::stod(two[i]), std::stod(one[i]), 1e-5 * std::stod(one[i])) << i;
  }
}

}  // namespace
}  // namespace kinema::cli_test
